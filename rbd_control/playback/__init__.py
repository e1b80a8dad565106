"""Recordings in, reports out, without ROS."""
