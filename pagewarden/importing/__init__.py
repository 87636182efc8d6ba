"""What `pagewarden import` does: a folder with all below it goes to a server, nothing twice."""
