"""What runs in children of the sandbox: all that touches the bytes of images."""
