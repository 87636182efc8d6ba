"""One pool of workers for all lanes, reassigned from lane to lane as the queue changes.

`plan` has the configuration, `allocation` the pure rules, `manager` the leader, `program` the
workers of one program, and `capacity` the CPUs and memory of its machine.
"""
