"""Profiler runs of one kernel: the script that is profiled, the tools that watch it, and what their traces say."""
