"""The GPU service: a container service that reads documents; see docs/how-to/gpu-service.md.

`app` has the routes, `service` what they share. No state outlives the process.
"""
