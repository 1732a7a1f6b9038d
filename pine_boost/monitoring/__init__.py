"""Count live inputs against a region: coverage, drift, and an alarm that may be checked every day."""

from pine_boost.monitoring.recalibration import Recalibrated, recalibrate
from pine_boost.monitoring.region_monitor import MonitorStatus, RegionMonitor, watch

__all__ = ["MonitorStatus", "Recalibrated", "RegionMonitor", "recalibrate", "watch"]
