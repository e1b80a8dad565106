// React to contact in C++: a subscriber of the flag, for which silence is no "no contact".
//
// The CMakeLists.txt of a package that has it:
//
//   cmake_minimum_required(VERSION 3.16)
//   project(react_to_contact)
//   find_package(ament_cmake REQUIRED)
//   find_package(rclcpp REQUIRED)
//   find_package(std_msgs REQUIRED)
//   add_executable(react_to_contact react_to_contact.cpp)
//   ament_target_dependencies(react_to_contact rclcpp std_msgs)
//   install(TARGETS react_to_contact DESTINATION lib/${PROJECT_NAME})
//   ament_package()
//
// Its package.xml depends on rclcpp and std_msgs.

#include <chrono>
#include <memory>

#include "rclcpp/rclcpp.hpp"
#include "std_msgs/msg/bool.hpp"

class ReactToContact : public rclcpp::Node
{
public:
  ReactToContact()
  : Node("react_to_contact")
  {
    // The verdict comes at once when it changes, and otherwise at 50 Hz.
    subscription_ = create_subscription<std_msgs::msg::Bool>(
      "contact_detector/contact", 10, [this](const std_msgs::msg::Bool & flag) {
        silence_->reset();
        if (flag.data && !contact_) {
          RCLCPP_WARN(get_logger(), "contact: stop what you are doing");
        } else if (!flag.data && contact_) {
          RCLCPP_INFO(get_logger(), "released");
        }
        contact_ = flag.data;
      });
    silence_ = create_wall_timer(std::chrono::milliseconds(500), [this]() {
        RCLCPP_WARN(get_logger(), "no verdict: act as in contact");
      });
  }

private:
  bool contact_ = false;
  rclcpp::Subscription<std_msgs::msg::Bool>::SharedPtr subscription_;
  rclcpp::TimerBase::SharedPtr silence_;
};

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  rclcpp::spin(std::make_shared<ReactToContact>());
  rclcpp::shutdown();
}
