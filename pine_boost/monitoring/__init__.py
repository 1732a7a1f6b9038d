"""Live inputs against a region: coverage, drift, an alarm that may be looked at every day."""

from pine_boost.monitoring.monitor import MonitorStatus, RegionMonitor
from pine_boost.monitoring.recalibration import Recalibrated, recalibrate
from pine_boost.monitoring.state import watch

__all__ = ["MonitorStatus", "Recalibrated", "RegionMonitor", "recalibrate", "watch"]
