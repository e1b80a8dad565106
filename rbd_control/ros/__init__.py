"""What makes rclpy keep promises, for all nodes.

Only this package, ``nodes`` and ``live`` import rclpy.

| promise | module |
|---|---|
| no exception of a callback, and no malformed message, ends the process | ``callback_errors`` |
| no refused publication or response ends it; outputs | ``fault_tolerant_node`` |
| a callback that hangs, or is late, is noticed by a thread | ``threads`` |
| no stopped receiver blocks a sender; a lost message is repeated soon | ``transports`` |
| a signal leads to an orderly end at any instant | ``run``, ``managed_node`` |
| parameters are typed, validated as a whole, and refused with a reason | ``declared_parameters`` |
| the robot of a node is known before it is configured | ``robot_source`` |
| messages do not delay the control loop | ``messages``, ``trajectory_wire`` |
"""
