// A ros2_control broadcaster of the external joint torque, which other controllers can chain on.
#ifndef EXTERNAL_TORQUE_BROADCASTER__EXTERNAL_TORQUE_BROADCASTER_HPP_
#define EXTERNAL_TORQUE_BROADCASTER__EXTERNAL_TORQUE_BROADCASTER_HPP_

#include <memory>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "external_torque_broadcaster/external_torque.hpp"
#include "realtime_tools/realtime_publisher.hpp"
#include "sensor_msgs/msg/joint_state.hpp"

namespace external_torque_broadcaster
{

/// Estimates the torque that the environment applies to the joints of one arm.
///
/// Reads position, velocity and effort of each joint. Exports the estimate as the state interfaces
/// <controller name>/<joint>/external_torque and publishes it on ~/external_joint_torques.
class ExternalTorqueBroadcaster : public controller_interface::ChainableControllerInterface
{
public:
  controller_interface::CallbackReturn on_init() override;

  controller_interface::InterfaceConfiguration command_interface_configuration() const override;

  controller_interface::InterfaceConfiguration state_interface_configuration() const override;

  controller_interface::CallbackReturn on_configure(
    const rclcpp_lifecycle::State & previous_state) override;

  controller_interface::CallbackReturn on_activate(
    const rclcpp_lifecycle::State & previous_state) override;

  controller_interface::CallbackReturn on_deactivate(
    const rclcpp_lifecycle::State & previous_state) override;

protected:
  std::vector<hardware_interface::StateInterface::SharedPtr> on_export_state_interfaces_list()
    override;

  controller_interface::return_type update_reference_from_subscribers(
    const rclcpp::Time & time, const rclcpp::Duration & period) override;

  controller_interface::return_type update_and_write_commands(
    const rclcpp::Time & time, const rclcpp::Duration & period) override;

private:
  using Publisher = realtime_tools::RealtimePublisher<sensor_msgs::msg::JointState>;

  /// Read all state interfaces; whether all could be read.
  bool read(Sample & sample) const;

  /// Write the estimate to the exported interfaces.
  void hand_on();

  /// Begin anew, without an estimate.
  void forget();

  ExternalTorque estimate_;
  sensor_msgs::msg::JointState message_;
  std::unique_ptr<Publisher> publisher_;
};

}  // namespace external_torque_broadcaster

#endif  // EXTERNAL_TORQUE_BROADCASTER__EXTERNAL_TORQUE_BROADCASTER_HPP_
