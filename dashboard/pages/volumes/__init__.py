"""Pages below /volumes: jobs, one job, one volume, one page."""
