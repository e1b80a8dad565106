#include "external_torque_broadcaster/external_torque_broadcaster.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>

#include "pluginlib/class_list_macros.hpp"

namespace external_torque_broadcaster
{

namespace
{

constexpr std::array<const char *, 3> INTERFACES{"position", "velocity", "effort"};
constexpr double DEFAULT_GAIN = 50.0;

}  // namespace

controller_interface::CallbackReturn ExternalTorqueBroadcaster::on_init()
{
  try {
    // Observer gain [1/s], one value for all joints or one for each.
    auto_declare<std::vector<double>>("gain", {DEFAULT_GAIN});
  } catch (const std::exception & error) {
    RCLCPP_ERROR(get_node()->get_logger(), "Parameter gain cannot be declared: %s", error.what());
    return controller_interface::CallbackReturn::ERROR;
  }
  return controller_interface::CallbackReturn::SUCCESS;
}

controller_interface::InterfaceConfiguration
ExternalTorqueBroadcaster::command_interface_configuration() const
{
  return {controller_interface::interface_configuration_type::NONE, {}};
}

controller_interface::InterfaceConfiguration
ExternalTorqueBroadcaster::state_interface_configuration() const
{
  controller_interface::InterfaceConfiguration result;
  result.type = controller_interface::interface_configuration_type::INDIVIDUAL;
  for (const char * joint : arm_joint_names) {
    for (const char * interface : INTERFACES) {
      result.names.push_back(std::string(joint) + "/" + interface);
    }
  }
  return result;
}

controller_interface::CallbackReturn ExternalTorqueBroadcaster::on_configure(
  const rclcpp_lifecycle::State & /*previous_state*/)
{
  const auto gain = get_node()->get_parameter("gain").as_double_array();
  const bool usable = std::all_of(
    gain.begin(), gain.end(), [](double k) { return std::isfinite(k) && k > 0.0; });
  if (!usable || (gain.size() != 1 && gain.size() != ARM_NV)) {
    RCLCPP_ERROR(
      get_node()->get_logger(),
      "Parameter gain has %zu values; give 1 or %d, all finite and above 0 1/s.", gain.size(),
      ARM_NV);
    return controller_interface::CallbackReturn::ERROR;
  }
  JointVector gains;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    gains[i] = gain.size() == 1 ? gain[0] : gain[i];
  }
  estimate_.set_gain(gains);
  message_.name.assign(std::begin(arm_joint_names), std::end(arm_joint_names));
  message_.effort.assign(ARM_NV, 0.0);
  publisher_ = std::make_unique<Publisher>(
    get_node()->create_publisher<sensor_msgs::msg::JointState>(
      "~/external_joint_torques", rclcpp::SystemDefaultsQoS()));
  return controller_interface::CallbackReturn::SUCCESS;
}

controller_interface::CallbackReturn ExternalTorqueBroadcaster::on_activate(
  const rclcpp_lifecycle::State & /*previous_state*/)
{
  forget();
  return controller_interface::CallbackReturn::SUCCESS;
}

controller_interface::CallbackReturn ExternalTorqueBroadcaster::on_deactivate(
  const rclcpp_lifecycle::State & /*previous_state*/)
{
  forget();
  return controller_interface::CallbackReturn::SUCCESS;
}

std::vector<hardware_interface::StateInterface::SharedPtr>
ExternalTorqueBroadcaster::on_export_state_interfaces_list()
{
  std::vector<hardware_interface::StateInterface::SharedPtr> result;
  for (const char * joint : arm_joint_names) {
    const std::string prefix = std::string(get_node()->get_name()) + "/" + joint;
    result.push_back(
      std::make_shared<hardware_interface::StateInterface>(prefix, "external_torque"));
  }
  return result;
}

controller_interface::return_type ExternalTorqueBroadcaster::update_reference_from_subscribers(
  const rclcpp::Time & /*time*/, const rclcpp::Duration & /*period*/)
{
  return controller_interface::return_type::OK;
}

controller_interface::return_type ExternalTorqueBroadcaster::update_and_write_commands(
  const rclcpp::Time & time, const rclcpp::Duration & period)
{
  Sample sample;
  if (read(sample)) {
    estimate_.update(sample, period.seconds());
  } else {
    estimate_.miss(period.seconds());
  }
  hand_on();
  // No message rather than one without an estimate.
  if (publisher_ && !std::isnan(estimate_.torque()[0])) {
    std::copy(estimate_.torque().begin(), estimate_.torque().end(), message_.effort.begin());
    message_.header.stamp = time;
    publisher_->try_publish(message_);
  }
  return controller_interface::return_type::OK;
}

void ExternalTorqueBroadcaster::forget()
{
  estimate_.reset();
  hand_on();
}

void ExternalTorqueBroadcaster::hand_on()
{
  for (std::size_t i = 0; i < ordered_exported_state_interfaces_.size(); ++i) {
    // Waiting for the lock would delay the control loop: a reader that holds it gets the value of
    // the next cycle.
    (void)ordered_exported_state_interfaces_[i]->set_value(estimate_.torque()[i]);
  }
}

bool ExternalTorqueBroadcaster::read(Sample & sample) const
{
  const std::array<JointVector *, INTERFACES.size()> values{
    &sample.position, &sample.velocity, &sample.effort};
  for (std::size_t i = 0; i < state_interfaces_.size(); ++i) {
    const auto value = state_interfaces_[i].get_optional<double>();
    if (!value) {
      return false;
    }
    (*values[i % INTERFACES.size()])[i / INTERFACES.size()] = *value;
  }
  return true;
}

}  // namespace external_torque_broadcaster

PLUGINLIB_EXPORT_CLASS(
  external_torque_broadcaster::ExternalTorqueBroadcaster,
  controller_interface::ChainableControllerInterface)
