"""The demonstration: a simulated arm, the controller and the detector over ROS 2."""
