// The estimate itself, without ROS: the exported momentum observer of one arm, fed cycle by cycle.
#ifndef EXTERNAL_TORQUE_BROADCASTER__EXTERNAL_TORQUE_HPP_
#define EXTERNAL_TORQUE_BROADCASTER__EXTERNAL_TORQUE_HPP_

#include <array>
#include <limits>

#include "arm.h"

namespace external_torque_broadcaster
{

using JointVector = std::array<double, ARM_NV>;

/// Positions, velocities and efforts of all joints, in the order of arm_joint_names.
struct Sample
{
  JointVector position{};
  JointVector velocity{};
  JointVector effort{};
};

/// Estimates the external joint torque. Nothing here allocates, locks or throws.
class ExternalTorque
{
public:
  ExternalTorque() { reset(); }

  /// Set the observer gains [1/s]; all must be above zero.
  void set_gain(const JointVector & gain) { gain_ = gain; }

  /// Forget all samples.
  void reset()
  {
    arm_observer_reset(&state_);
    since_last_ = 0.0;
    torque_.fill(std::numeric_limits<double>::quiet_NaN());
  }

  /// Take in the sample of one cycle.
  ///
  /// The sample is refused if a number is not finite, or no time has passed: then the estimate is
  /// NaN, so that nobody takes an old one for a new one, and the next sample covers the time of
  /// this one, too.
  ///
  /// @param sample the sample
  /// @param period time since the last cycle [s]
  /// @return whether there is an estimate
  bool update(const Sample & sample, double period)
  {
    since_last_ += period;
    const bool taken = arm_observer_step(
      &state_, sample.position.data(), sample.velocity.data(), sample.effort.data(), since_last_,
      gain_.data());
    if (taken) {
      since_last_ = 0.0;
    }
    for (std::size_t i = 0; i < torque_.size(); ++i) {
      torque_[i] = taken ? state_.residual[i] : std::numeric_limits<double>::quiet_NaN();
    }
    return taken;
  }

  /// Say that a cycle brought no sample.
  void miss(double period)
  {
    since_last_ += period;
    torque_.fill(std::numeric_limits<double>::quiet_NaN());
  }

  /// The estimated external torque of each joint [N·m or N]; NaN without one.
  const JointVector & torque() const { return torque_; }

private:
  arm_observer_state state_;
  JointVector gain_{};
  JointVector torque_;
  double since_last_ = 0.0;
};

}  // namespace external_torque_broadcaster

#endif  // EXTERNAL_TORQUE_BROADCASTER__EXTERNAL_TORQUE_HPP_
