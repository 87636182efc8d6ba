"""pagewarden bench volumes: the stages of volumes, against the truth and the one-pass reader."""
