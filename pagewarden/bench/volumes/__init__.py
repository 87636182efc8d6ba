"""pagewarden bench volumes: what the stages of volumes cost."""
