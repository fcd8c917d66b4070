"""For each alert series that make it fire and similar ones that must not, in promtool's notation: one value a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Series = Mapping[str, str]

ONE = 'job="diskless-coordinator", instance="one:9193"'
TWO = 'job="diskless-coordinator", instance="two:9193"'
EXPORT = 'job="diskless-export", instance="five:9295"'
GATE = 'job="diskless-gateway", instance="four:9291"'
WATCH = 'job="diskless-monitor", instance="three:9194"'
COMMIT = f'{ONE}, api="COMMIT_FILE"'
PARTITION = ', partition="3"'
DIRECTORY = ', directory="/data"'
PREFIX = "diskless_coordinator_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`fires` lists variants; each must give exactly one alert at minute `at`, with these labels and this description."""

    alert: str
    at: int
    fires: tuple[Series, ...]
    quiet: tuple[Series, ...]
    labels: Mapping[str, str]
    description: str


SERVICE = {"job": "diskless-coordinator"}
ON_ONE = {**SERVICE, "instance": "one:9193"}
ON_TWO = {**SERVICE, "instance": "two:9193"}
OF_EXPORTS = {"job": "diskless-export"}
OF_MONITOR = {"job": "diskless-monitor"}
OF_GATEWAYS = {"job": "diskless-gateway"}
ON_GATEWAY = {**OF_GATEWAYS, "instance": "four:9291"}
ON_MONITOR = {**OF_MONITOR, "instance": "three:9194"}


def commits(errors: str, error: str = "REQUEST_TIMED_OUT") -> Series:
    return {
        f'{PREFIX}requests_total{{{COMMIT}, error="NONE"}}': "0+100x90",
        f'{PREFIX}requests_total{{{COMMIT}, error="{error}"}}': errors,
    }


def seconds(in_time: str) -> Series:
    return {
        f'{PREFIX}request_seconds_bucket{{{COMMIT}, le="0.5"}}': in_time,
        f"{PREFIX}request_seconds_count{{{COMMIT}}}": "0+100x90",
    }


def pair(metric: str, one: str, two: str, more: str = PARTITION) -> Series:
    return {f"{PREFIX}{metric}{{{ONE}{more}}}": one, f"{PREFIX}{metric}{{{TWO}{more}}}": two}


def single(metric: str, values: str, more: str = "") -> Series:
    return {f"{PREFIX}{metric}{{{ONE}{more}}}": values}


def export(metric: str, values: str) -> Series:
    return {f'diskless_export_{metric}{{{EXPORT}, topic="orders"}}': values}


def gateway(metric: str, values: str, more: str = "") -> Series:
    return {f"diskless_gateway_{metric}{{{GATE}{more}}}": values}


def monitor(metric: str, values: str, more: str = "") -> Series:
    return {f"diskless_monitor_{metric}{{{WATCH}{more}}}": values}


def files(opened: str, **kind: str) -> Series:
    return {f"process_open_fds{{{ONE}}}": opened, f"process_max_fds{{{ONE}}}": "100x20", **kind}


READY = {f"{PREFIX}ready{{{ONE}}}": "1x60"}

CASES = (
    Case(
        alert="DisklessServiceDown",
        at=5,
        fires=({f"up{{{ONE}}}": "0x10", f"up{{{TWO}}}": "0x10"},),
        quiet=({f"up{{{ONE}}}": "0x10", f"up{{{TWO}}}": "1x10"}, {'up{job="node-exporter", instance="one:9100"}': "0x10"}),
        labels=SERVICE,
        description="None of the coordinator processes of diskless-coordinator can be scraped."
        " Diskless topics can neither be written nor read.",
    ),
    Case(
        alert="DisklessCoordinatorDown",
        at=8,
        fires=({f"up{{{ONE}}}": "0x10", f"up{{{TWO}}}": "1x10"},),
        quiet=({f"up{{{ONE}}}": "1 1 0 0 0 1 1 1 1 1", f"up{{{TWO}}}": "1x10"},),
        labels=ON_ONE,
        description="one:9193 cannot be scraped for 5 minutes. The others have taken over what it led; there is one standby less.",
    ),
    Case(
        alert="DisklessNoLeader",
        at=4,
        fires=(pair("leading", "0x9", "0x9"), pair("leading", "1 1 stale", "0x9")),
        quiet=(pair("leading", "1 1 0 0 0 0", "0 0 0 1 1 1"), pair("leading", "1x9", "0x9")),
        labels={**SERVICE, "partition": "3"},
        description="No node leads metadata partition 3 of diskless-coordinator for a minute: commits to its topics are refused.",
    ),
    Case(
        alert="DisklessTwoLeaders",
        at=8,
        fires=(pair("leading", "1x9", "1x9"),),
        quiet=(pair("leading", "1x9", "0x4 1 0x9"), pair("leading", "1x9", "0x9")),
        labels={**SERVICE, "partition": "3"},
        description="2 processes say that they lead metadata partition 3 of diskless-coordinator.",
    ),
    Case(
        alert="DisklessLeaderFlapping",
        at=6,
        fires=(pair("leader_epoch", "1 7x10", "1x10"),),
        quiet=(pair("leader_epoch", "1 2 3 4 5x20", "1x20"), pair("leader_epoch", "7x20", "7x20")),
        labels={**SERVICE, "partition": "3"},
        description="Metadata partition 3 of diskless-coordinator had 6 changes of leadership in 15 minutes.",
    ),
    Case(
        alert="DisklessReplicaFailed",
        at=4,
        fires=(single("partitions", "0 2x9", ', state="failed"'),),
        quiet=(single("partitions", "0 2 0x9", ', state="failed"'), single("partitions", "2x9", ', state="following"')),
        labels={**ON_ONE, "state": "failed"},
        description="2 replicas on one:9193 have failed: they neither lead nor follow.",
    ),
    Case(
        alert="DisklessReplicaRebuilt",
        at=4,
        fires=(single("replica_failures_total", "0 1x9", ', partition="3"'),),
        quiet=(single("replica_failures_total", "1x9", ', partition="3"'),),
        labels={**ON_ONE, "partition": "3"},
        description="Coordinator 3 failed on one:9193 within the last 30 minutes.",
    ),
    Case(
        alert="DisklessOutOfLeadership",
        at=3,
        fires=(single("leadership_withheld", "1x5", ', reason="clock"'),),
        quiet=(single("leadership_withheld", "0x5", ', reason="clock"'), single("leadership_withheld", "0 0 0 1", ', reason="clock"')),
        labels={**ON_ONE, "reason": "clock"},
        description="one:9193 stays out of leadership for a minute, reason: clock. There is one standby less.",
    ),
    Case(
        alert="DisklessClocksDiffer",
        at=3,
        fires=(
            {
                f'{PREFIX}clock_ahead_seconds{{{ONE}, clock="Kafka"}}': "-60x5",
                f"{PREFIX}clock_skew_limit_seconds{{{ONE}}}": "5x5",
            },
        ),
        quiet=(
            {f'{PREFIX}clock_ahead_seconds{{{ONE}, clock="Kafka"}}': "4x5", f"{PREFIX}clock_skew_limit_seconds{{{ONE}}}": "5x5"},
            {f'{PREFIX}clock_ahead_seconds{{{ONE}, clock="Kafka"}}': "0 0 0 60", f"{PREFIX}clock_skew_limit_seconds{{{ONE}}}": "5x5"},
        ),
        labels={**ON_ONE, "clock": "Kafka"},
        description="The clock of one:9193 is 60 s away from that of Kafka.",
    ),
    Case(
        alert="DisklessNotReady",
        at=12,
        fires=(single("ready", "0x20"),),
        quiet=(single("ready", "0x5 1 0x20"), single("ready", "1x20")),
        labels=ON_ONE,
        description="one:9193 says on /ready for 10 minutes that it is not ready.",
    ),
    Case(
        alert="DisklessCommitErrorsFast",
        at=30,
        fires=(commits("0+10x90"), commits("0+10x90", "NOT_COORDINATOR")),
        quiet=(commits("0+10x90", "OUT_OF_ORDER_SEQUENCE_NUMBER"), commits("0+1x90"), commits("0+10x15 150x90")),
        labels=SERVICE,
        description="9.091% of the commit requests of diskless-coordinator fail through the service's fault.",
    ),
    Case(
        alert="DisklessCommitErrorsSlow",
        at=60,
        fires=(commits("0+1x90"),),
        quiet=(commits("0+0.5x90"), commits("0+5x20 100x90")),
        labels=SERVICE,
        description="0.9901% of the commit requests of diskless-coordinator failed in the last hours.",
    ),
    Case(
        alert="DisklessCommitLatencyFast",
        at=30,
        fires=(seconds("0+80x90"),),
        quiet=(seconds("0+90x90"), seconds("0+80x15 1200+100x90")),
        labels=SERVICE,
        description="20% of the commits of diskless-coordinator take longer than 0.5 s.",
    ),
    Case(
        alert="DisklessCommitLatencySlow",
        at=60,
        fires=(seconds("0+92x90"),),
        quiet=(seconds("0+95x90"),),
        labels=SERVICE,
        description="8% of the commits of diskless-coordinator took longer than 0.5 s in the last hours.",
    ),
    Case(
        alert="DisklessPendingBytesHigh",
        at=3,
        fires=({**single("pending_bytes", "90x9", PARTITION), **single("pending_bytes_limit", "100x9")},),
        quiet=({**single("pending_bytes", "70x9", PARTITION), **single("pending_bytes_limit", "100x9")},),
        labels={**ON_ONE, "partition": "3"},
        description="Waiting commits of metadata partition 3 on one:9193 use 90% of partition.pending.max.bytes.",
    ),
    Case(
        alert="DisklessStandbyLags",
        at=10,
        fires=(pair("log_end_offset", "0+100x20", "50x20"), pair("log_end_offset", "0+100x20", "0 0 0 0 0+100x20")),
        quiet=(pair("log_end_offset", "0+100x20", "0 0+100x20"), pair("log_end_offset", "9x20", "9x20")),
        labels={**ON_TWO, "partition": "3"},
        description="two:9193 has not read yet what others had read of metadata partition 3 two minutes ago.",
    ),
    Case(
        alert="DisklessStateBehind",
        at=10,
        fires=({**single("state_applied_offset", "5x20", PARTITION), **single("log_end_offset", "0+100x20", PARTITION)},),
        quiet=({**single("state_applied_offset", "0 0+100x20", PARTITION), **single("log_end_offset", "0+100x20", PARTITION)},),
        labels={**ON_ONE, "partition": "3"},
        description="one:9193 has not written to its state database what it had applied of metadata partition 3 two minutes ago.",
    ),
    Case(
        alert="DisklessDigestMismatch",
        at=5,
        fires=({**pair("state_applied_offset", "10x9", "10x9"), **pair("state_digest", "7x9", "8x9")},),
        quiet=(
            {**pair("state_applied_offset", "10x9", "11x9"), **pair("state_digest", "7x9", "8x9")},
            {**pair("state_applied_offset", "10x9", "10x9"), **pair("state_digest", "7x9", "7x9")},
            {**pair("state_applied_offset", "10x9", "10x9"), **pair("state_digest", "7x9", "8x1 7x9")},
        ),
        labels={**SERVICE, "partition": "3"},
        description="Replicas of metadata partition 3 of diskless-coordinator that have written up to the same offset differ.",
    ),
    Case(
        alert="DisklessSnapshotBad",
        at=4,
        fires=(single("snapshot_digest_mismatches_total", "0 1x9", PARTITION),),
        quiet=(single("snapshot_digest_mismatches_total", "0x9", PARTITION),),
        labels={**ON_ONE, "partition": "3"},
        description="one:9193 refused a snapshot of metadata partition 3 within the last 30 minutes.",
    ),
    Case(
        alert="DisklessSnapshotsFail",
        at=40,
        fires=(single("snapshot_failures_total", "0+1x50", f'{PARTITION}, step="upload"'),),
        quiet=(
            single("snapshot_failures_total", "9x50", f'{PARTITION}, step="upload"'),
            single("snapshot_failures_total", "0x30 1 2x30", f'{PARTITION}, step="upload"'),
        ),
        labels={**ON_ONE, "partition": "3", "step": "upload"},
        description="one:9193: the step upload for snapshots of metadata partition 3 keeps failing.",
    ),
    Case(
        alert="DisklessSnapshotOld",
        at=15,
        fires=({**pair("snapshot_age_seconds", "25200x20", "25200x20"), **pair("snapshot_lag_entries", "5000x20", "4000x20")},),
        quiet=(
            {**pair("snapshot_age_seconds", "25200x20", "25200x20"), **pair("snapshot_lag_entries", "3x20", "3x20")},
            # One that has just read the record of the newest snapshot.
            {**pair("snapshot_age_seconds", "25200x20", "60x20"), **pair("snapshot_lag_entries", "5000x20", "5000x20")},
        ),
        labels={**SERVICE, "partition": "3"},
        description="The newest snapshot of metadata partition 3 of diskless-coordinator is 7h 0m 0s old, and the log has grown since.",
    ),
    Case(
        alert="DisklessRestoreUnfinished",
        at=65,
        fires=(single("restore_unfinished", "1x80"),),
        quiet=(single("restore_unfinished", "0x80"), single("restore_unfinished", "1x30 0x50")),
        labels=SERVICE,
        description="The log of diskless-coordinator begins with a restore that no operator has called finished.",
    ),
    Case(
        alert="DisklessFileDeletionsFail",
        at=40,
        fires=(single("file_delete_failures_total", "0+1x50", PARTITION),),
        quiet=(single("file_delete_failures_total", "9x50", PARTITION), single("file_delete_failures_total", "0x30 1 2x30", PARTITION)),
        labels={**ON_ONE, "partition": "3"},
        description="one:9193: the object store keeps refusing deletions for metadata partition 3.",
    ),
    Case(
        alert="DisklessFilesNotDeleted",
        at=40,
        fires=(
            single("files", "7x50", f'{PARTITION}, state="deletable"'),
            # The other process leads since minute 20.
            pair("files", "7x19 stale", "_x19 9x40", f'{PARTITION}, state="deletable"'),
        ),
        quiet=(
            single("files", "7x20 0 7x30", f'{PARTITION}, state="deletable"'),
            single("files", "0x20 7x30", f'{PARTITION}, state="deletable"'),
            single("files", "7x50", f'{PARTITION}, state="waiting"'),
        ),
        labels={**SERVICE, "partition": "3"},
        description="Metadata partition 3 of diskless-coordinator had files for half an hour that only the object store keeps:"
        " 7 at the least.",
    ),
    Case(
        alert="DisklessFilesWaitLong",
        at=65,
        fires=(
            {**single("file_oldest_empty_age_seconds", "691200x90", PARTITION), **single("files", "4x90", f'{PARTITION}, state="waiting"')},
        ),
        quiet=(
            {**single("file_oldest_empty_age_seconds", "86400x90", PARTITION), **single("files", "4x90", f'{PARTITION}, state="waiting"')},
            # Nothing waits for another owner: it is the store that does not delete, which another alert tells.
            {**single("file_oldest_empty_age_seconds", "691200x90", PARTITION), **single("files", "0x90", f'{PARTITION}, state="waiting"')},
        ),
        labels={**SERVICE, "partition": "3"},
        description="A file that metadata partition 3 of diskless-coordinator is done with is empty for 8d 0h 0m 0s and was not deleted.",
    ),
    Case(
        alert="DisklessRetentionHeld",
        at=20,
        fires=(single("retention_held_partitions", "0 2x30", PARTITION), pair("retention_held_partitions", "2x30", "0x30")),
        quiet=(single("retention_held_partitions", "0x30", PARTITION), single("retention_held_partitions", "2x9 0x20", PARTITION)),
        labels={**SERVICE, "partition": "3"},
        description="2 user partitions of metadata partition 3 of diskless-coordinator begin with a batch whose timestamp lies in the"
        " future.",
    ),
    Case(
        alert="DisklessOrphanScansFail",
        at=80,
        fires=(single("orphan_scan_failures_total", "0+1x90"),),
        quiet=(single("orphan_scan_failures_total", "9x90"), single("orphan_scan_failures_total", "0x40 1 2x50")),
        labels=ON_ONE,
        description="one:9193: the scan of the object store for orphans was interrupted at least 3 times within an hour.",
    ),
    Case(
        alert="DisklessOrphanScanUnfinished",
        at=420,
        fires=(
            {**single("orphan_scan_last_finished_timestamp_seconds", "0x430"), **single("orphan_scan_running", "1x430")},
            # It is interrupted now and then.
            {**single("orphan_scan_last_finished_timestamp_seconds", "0x430"), **single("orphan_scan_running", "0x390 1 0x40")},
        ),
        quiet=(
            {**single("orphan_scan_last_finished_timestamp_seconds", "0x300 18000x130"), **single("orphan_scan_running", "1x430")},
            # Nobody wants scans: the interval is 0.
            {**single("orphan_scan_last_finished_timestamp_seconds", "0x430"), **single("orphan_scan_running", "0x430")},
        ),
        labels=SERVICE,
        description="diskless-coordinator scans the object store for orphans, and finished that 7h 0m 0s ago last.",
    ),
    Case(
        alert="DisklessMoveDoesNotEnd",
        at=7,
        fires=(
            single("partition_move_oldest_seconds", "0 60 120 180 240 300 360 420 480"),
            # Another process leads the directory by now.
            {
                f"{PREFIX}partition_move_oldest_seconds{{{ONE}}}": "0+60x4 stale",
                f"{PREFIX}partition_move_oldest_seconds{{{TWO}}}": "35+55x9",
            },
        ),
        quiet=(single("partition_move_oldest_seconds", "0 60 120 180 240 0x9"), single("partition_move_oldest_seconds", "90x9")),
        labels=SERVICE,
        description="A move of a user partition of diskless-coordinator to another coordinator is under way for 7m 0s.",
    ),
    Case(
        alert="DisklessLogDirectoryOffline",
        at=5,
        fires=(single("log_directory_offline", "0 1x9", DIRECTORY),),
        quiet=(single("log_directory_offline", "0x9", DIRECTORY),),
        labels={**ON_ONE, "directory": "/data"},
        description="one:9193 has taken /data offline.",
    ),
    Case(
        alert="DisklessLogDirectoryFull",
        at=15,
        fires=({**single("log_directory_free_bytes", "30x20", DIRECTORY), **single("log_directory_bytes", "1000x20", DIRECTORY)},),
        quiet=(
            {**single("log_directory_free_bytes", "60x20", DIRECTORY), **single("log_directory_bytes", "1000x20", DIRECTORY)},
            # Somebody made room.
            {**single("log_directory_free_bytes", "30x10 400x10", DIRECTORY), **single("log_directory_bytes", "1000x20", DIRECTORY)},
        ),
        labels={**ON_ONE, "directory": "/data"},
        description="/data of one:9193 has 3% left.",
    ),
    Case(
        alert="DisklessAssignmentsNotRecorded",
        at=5,
        fires=(single("replica_to_dir_assignment_wait_seconds", "0 60 120 180 240 300 360"),),
        quiet=(single("replica_to_dir_assignment_wait_seconds", "0 20 0 30 2 0 0"),),
        labels=ON_ONE,
        description="one:9193 has waited for 5m 0s until metadata partition 0 records the data directory of a replica.",
    ),
    Case(
        alert="DisklessEntriesUnacknowledged",
        at=4,
        fires=(single("oldest_unacknowledged_entry_age_seconds", "10x9", PARTITION),),
        quiet=(single("oldest_unacknowledged_entry_age_seconds", "0 10 0x9", PARTITION),),
        labels={**ON_ONE, "partition": "3"},
        description="An entry of metadata partition 3 on one:9193 waits for 10s.",
    ),
    Case(
        alert="DisklessKafkaProduceErrors",
        at=20,
        fires=(single("produce_errors_total", "0+1x30"),),
        quiet=(single("produce_errors_total", "5x30"), single("produce_errors_total", "0 5x30")),
        labels=ON_ONE,
        description="Kafka did not write 10 entries of one:9193 in 10 minutes. Each ended a leadership.",
    ),
    Case(
        alert="DisklessTopicCheckFails",
        at=10,
        fires=(single("topic_check_failures_total", "0+1x20", ', reason="missing"'),),
        quiet=(
            single("topic_check_failures_total", "0+1x20", ', reason="unavailable"'),
            single("topic_check_failures_total", "3x20", ', reason="missing"'),
        ),
        labels={**ON_ONE, "reason": "missing"},
        description="one:9193: looks at the metadata topic end with `missing`.",
    ),
    Case(
        alert="DisklessCertificateExpires",
        at=10,
        fires=(single("certificate_seconds_left", "86400x20", ', listener="SASL_SSL"'),),
        quiet=(single("certificate_seconds_left", "1300000x20", ', listener="SASL_SSL"'),),
        labels={**ON_ONE, "listener": "SASL_SSL"},
        description="The certificate of listener SASL_SSL of one:9193 expires in 1d 0h 0m 0s.",
    ),
    Case(
        alert="DisklessAclsOld",
        at=12,
        fires=({**single("acl_age_seconds", "30+60x20"), **single("acl_refresh_failures_total", "0+2x20")},),
        quiet=(
            {**single("acl_age_seconds", "30x20"), **single("acl_refresh_failures_total", "0 2x20")},
            {**single("acl_age_seconds", "30+60x20"), **single("acl_refresh_failures_total", "0x20")},
        ),
        labels=ON_ONE,
        description="one:9193 heard the ACLs of Kafka 12m 30s ago; changes since then do not count there.",
    ),
    Case(
        alert="DisklessForeignEntries",
        at=3,
        fires=(single("void_entries_total", "1x9", ', partition="3", reason="foreign"'),),
        quiet=(single("void_entries_total", "9x9", ', partition="3", reason="stale"'),),
        labels={**SERVICE, "partition": "3"},
        description="Metadata partition 3 of diskless-coordinator has entries that no coordinator wrote.",
    ),
    Case(
        alert="DisklessContradiction",
        at=3,
        fires=(single("contradictions_total", "0 1x9", ', partition="3", kind="void"'),),
        quiet=(single("contradictions_total", "0x9", ', partition="3", kind="void"'),),
        labels={**SERVICE, "partition": "3"},
        description=(
            "Metadata partition 3 of diskless-coordinator has an entry of a term in force whose offsets, sequences or keys the log before"
            " it rules out."
        ),
    ),
    Case(
        alert="DisklessEventLoopStalls",
        at=14,
        fires=({**single("event_loop_lag_seconds_sum", "0+60x20"), **single("event_loop_lag_seconds_count", "0+200x20")},),
        quiet=({**single("event_loop_lag_seconds_sum", "0+1x20"), **single("event_loop_lag_seconds_count", "0+600x20")},),
        labels=ON_ONE,
        description="Timers on one:9193 come 300ms late on average.",
    ),
    Case(
        alert="DisklessBackgroundLoopStalled",
        at=3,
        fires=(single("background_loop_last_success_age_seconds", "400x9", ', loop="topic-guard"'),),
        quiet=(single("background_loop_last_success_age_seconds", "10x9", ', loop="topic-guard"'),),
        labels={**ON_ONE, "loop": "topic-guard"},
        description="Loop topic-guard on one:9193 last succeeded 6m 40s ago.",
    ),
    Case(
        alert="DisklessOpenFilesHigh",
        at=8,
        fires=({**files("90x20"), **READY}, {**files("90x20"), f"diskless_monitor_up{{{ONE}}}": "1x20"}),
        quiet=({**files("50x20"), **READY}, files("90x20")),
        labels=ON_ONE,
        description="one:9193 uses 90% of the files it may have open.",
    ),
    Case(
        alert="DisklessRestarts",
        at=8,
        fires=({f"process_start_time_seconds{{{ONE}}}": "1 1 2 2 3 3 4 4 4", **READY},),
        quiet=(
            {f"process_start_time_seconds{{{ONE}}}": "1 1 2 2 3 3 3 3 3", **READY},
            {f"process_start_time_seconds{{{ONE}}}": "1 1 2 2 3 3 4 4 4"},
        ),
        labels=ON_ONE,
        description="one:9193 restarted 3 times within an hour.",
    ),
    Case(
        alert="DisklessMonitorDown",
        at=8,
        fires=(monitor("up", "0x9"), {f"up{{{WATCH}}}": "0x9"}),
        quiet=({**monitor("up", "1x9"), f"up{{{WATCH}}}": "1x9"}, monitor("up", "0x3 1x9")),
        labels=ON_MONITOR,
        description="The monitor three:9194 cannot be scraped, or its query has ended. The log is not audited meanwhile.",
    ),
    Case(
        alert="DisklessMonitorLagging",
        at=25,
        fires=(monitor("lag_entries", "20000x40", PARTITION),),
        quiet=(
            monitor("lag_entries", "90000-1000x40", PARTITION),
            monitor("lag_entries", "500x40", PARTITION),
            monitor("lag_entries", "20000x20 0 20000x40", PARTITION),
        ),
        labels=ON_MONITOR,
        description="The monitor three:9194 was at least 20000 entries behind for 10 minutes, and does not catch up.",
    ),
    Case(
        alert="DisklessMonitorNotFresh",
        at=8,
        fires=(
            {**monitor("freshness_seconds", "60x9"), **monitor("last_progress_timestamp_seconds", "0+60x9")},
            {**monitor("freshness_seconds", "60x9"), **monitor("last_progress_timestamp_seconds", "0x9")},
        ),
        quiet=({**monitor("freshness_seconds", "2x9"), **monitor("last_progress_timestamp_seconds", "0+60x9")},),
        labels=ON_MONITOR,
        description="What the monitor three:9194 shows is 1m 0s old.",
    ),
    Case(
        alert="DisklessAuditFindings",
        at=75,
        fires=(monitor("findings_open", "0x70 2x20", ', rule="gap"'), monitor("findings_open", "2x90", ', rule="gap"')),
        quiet=(monitor("findings_open", "5x60 0x30", ', rule="gap"'), monitor("findings_open", "5x60 _x30", ', rule="gap"')),
        labels={**OF_MONITOR, "rule": "gap"},
        description="2 open findings of rule `gap`: the metadata log says what must not be.",
    ),
    Case(
        alert="DisklessLogAndServiceDisagree",
        at=2,
        fires=(monitor("verify_disagrees", "0 1x9"),),
        quiet=(monitor("verify_disagrees", "1 0x9"),),
        labels=OF_MONITOR,
        description="The last `diskless monitor verify` of diskless-monitor rebuilt a state from the log that a replica does not have.",
    ),
    Case(
        alert="DisklessQuarantine",
        at=75,
        fires=(monitor("quarantined_total", "0x70 4x20"),),
        quiet=(monitor("quarantined_total", "4x90"), monitor("quarantined_total", "0x90")),
        labels=OF_MONITOR,
        description="4 entries in force were put into quarantine within an hour.",
    ),
    Case(
        alert="DisklessFilesLost",
        at=2,
        fires=(monitor("missing_files", "0 3x9"),),
        quiet=(monitor("missing_files", "3 0x9"),),
        labels=OF_MONITOR,
        description="3 files that the metadata log of diskless-monitor needs are missing: their records cannot be read.",
    ),
    Case(
        alert="DisklessTransactionOpen",
        at=8,
        fires=(monitor("open_transaction_age_seconds", "0+60x9"),),
        quiet=(monitor("open_transaction_age_seconds", "0+60x4 0x9"), monitor("open_transaction_age_seconds", "0x9")),
        labels=OF_MONITOR,
        description="A metadata transaction of diskless-monitor has been open for 8m 0s.",
    ),
    Case(
        alert="DisklessVerifyOverdue",
        at=30,
        fires=({**monitor("check_interval_seconds", "60x40", ', check="verify"'), **monitor("last_verify_timestamp_seconds", "0x40")},),
        quiet=(
            {**monitor("check_interval_seconds", "0x40", ', check="verify"'), **monitor("last_verify_timestamp_seconds", "0x40")},
            {**monitor("check_interval_seconds", "60x40", ', check="verify"'), **monitor("last_verify_timestamp_seconds", "0+60x40")},
            {**monitor("check_interval_seconds", "60x40", ', check="objects"'), **monitor("last_verify_timestamp_seconds", "0x40")},
        ),
        labels=ON_MONITOR,
        description="The monitor three:9194 last finished its check `verify` 30m 0s ago.",
    ),
    Case(
        alert="DisklessObjectsOverdue",
        at=30,
        fires=({**monitor("check_interval_seconds", "60x40", ', check="objects"'), **monitor("last_objects_timestamp_seconds", "0x40")},),
        quiet=(
            {**monitor("check_interval_seconds", "0x40", ', check="objects"'), **monitor("last_objects_timestamp_seconds", "0x40")},
            {**monitor("check_interval_seconds", "60x40", ', check="objects"'), **monitor("last_objects_timestamp_seconds", "0+60x40")},
        ),
        labels=ON_MONITOR,
        description="The monitor three:9194 last finished its check `objects` 30m 0s ago.",
    ),
    Case(
        alert="DisklessGatewayDown",
        at=5,
        fires=({f"up{{{GATE}}}": "0x10"},),
        quiet=({f"up{{{GATE}}}": "1x10"}, {f"up{{{GATE}}}": "1 1 1 0x10"}),
        labels=ON_GATEWAY,
        description="four:9291 has not answered Prometheus for 3 minutes.",
    ),
    Case(
        alert="DisklessGatewayNotMember",
        at=5,
        fires=(gateway("member", "1 1 0x10"),),
        quiet=(gateway("member", "1x10"), gateway("member", "1 1 1 0 0 1x10")),
        labels=ON_GATEWAY,
        description="four:9291 runs and has been no member of the group of gateways for 2 minutes.",
    ),
    Case(
        alert="DisklessGatewayUploadsFail",
        at=10,
        fires=(gateway("produce_uploads_given_up_total", "0x5 1x10"),),
        quiet=(gateway("produce_uploads_given_up_total", "3x20"),),
        labels=ON_GATEWAY,
        description="four:9291 gave up files: their producers got KAFKA_STORAGE_ERROR or a timeout.",
    ),
    Case(
        alert="DisklessGatewayCommitsSlow",
        at=20,
        fires=(
            {
                **gateway("produce_commit_seconds_bucket", "0+75x30", ', le="0.5"'),
                **gateway("produce_commit_seconds_count", "0+100x30"),
            },
        ),
        quiet=(
            {
                **gateway("produce_commit_seconds_bucket", "0+95x30", ', le="0.5"'),
                **gateway("produce_commit_seconds_count", "0+100x30"),
            },
        ),
        labels=OF_GATEWAYS,
        description="25% of the files of diskless-gateway wait over half a second for their commits.",
    ),
    Case(
        alert="DisklessGatewayTimeouts",
        at=20,
        fires=({**gateway("produce_timed_out_total", "0+5x30"), **gateway("produce_requests_total", "0+100x30")},),
        quiet=(
            {**gateway("produce_timed_out_total", "0+5x30"), **gateway("produce_requests_total", "0+1000x30")},
            {**gateway("produce_timed_out_total", "9x30"), **gateway("produce_requests_total", "0+100x30")},
        ),
        labels=OF_GATEWAYS,
        description="5% of the Produce requests at diskless-gateway ended without a known outcome.",
    ),
    Case(
        alert="DisklessGatewayPaused",
        at=20,
        fires=(gateway("produce_paused", "1x30"),),
        quiet=(gateway("produce_paused", "0x9 1 1 1 0x20"), gateway("produce_paused", "0x30")),
        labels=ON_GATEWAY,
        description="four:9291 did not read producers for 100% of the last 10 minutes.",
    ),
    Case(
        alert="DisklessGatewayDamagedBatches",
        at=20,
        fires=(gateway("fetch_damaged_batches_total", "0x10 1x20"),),
        quiet=(gateway("fetch_damaged_batches_total", "2x30"),),
        labels=ON_GATEWAY,
        description="four:9291 found batches that are not what the coordinators say.",
    ),
    Case(
        alert="DisklessGatewayCatalogueOld",
        at=5,
        fires=(gateway("catalogue_age_seconds", "1 60+60x9"),),
        quiet=(gateway("catalogue_age_seconds", "1x9"), gateway("catalogue_age_seconds", "1 1 1 1 90 1x9")),
        labels=ON_GATEWAY,
        description="four:9291 has a list of diskless topics that is 5m 0s old.",
    ),
    Case(
        alert="DisklessGatewayReadsFail",
        at=15,
        fires=({**gateway("fetch_store_reads_total", "0+100x30"), **gateway("fetch_store_read_failures_total", "0+50x30")},),
        quiet=(
            {**gateway("fetch_store_reads_total", "0+100x30"), **gateway("fetch_store_read_failures_total", "0+5x30")},
            {**gateway("fetch_store_reads_total", "9x30"), **gateway("fetch_store_read_failures_total", "9x30")},
        ),
        labels=ON_GATEWAY,
        description="50% of the reads of four:9291 fail: its readers get KAFKA_STORAGE_ERROR.",
    ),
    Case(
        alert="DisklessGatewayVersionsDiffer",
        at=70,
        fires=({**gateway("info", "1x90", ', version="1"'), **gateway("info", "1x90", ', version="2"')},),
        quiet=(
            {**gateway("info", "1x90", ', version="1", rack="a"'), **gateway("info", "1x90", ', version="1", rack="b"')},
            {**gateway("info", "1x90", ', version="1"'), **gateway("info", "_x40 1x50", ', version="2"')},
        ),
        labels=OF_GATEWAYS,
        description="Gateways of diskless-gateway have 2 versions for an hour.",
    ),
    Case(
        alert="DisklessGatewayCertificateExpires",
        at=70,
        fires=(gateway("certificate_seconds_left", "864000x90", ', listener="SASL_SSL"'),),
        quiet=(gateway("certificate_seconds_left", "8640000x90", ', listener="SASL_SSL"'),),
        labels={**ON_GATEWAY, "listener": "SASL_SSL"},
        description="Listener SASL_SSL of four:9291: 10d 0h 0m 0s are left.",
    ),
    Case(
        alert="DisklessExportDown",
        at=8,
        fires=({f"up{{{EXPORT}}}": "0x9"},),
        quiet=({f"up{{{EXPORT}}}": "0x3 1x9"},),
        labels={**OF_EXPORTS, "instance": "five:9295"},
        description="five:9295 has not answered Prometheus for 5 minutes: its table gets no more records.",
    ),
    Case(
        alert="DisklessExportBehind",
        at=90,
        fires=(export("last_caught_up_timestamp_seconds", "0x99"),),
        quiet=(export("last_caught_up_timestamp_seconds", "0+60x99"), export("last_caught_up_timestamp_seconds", "0x70 4200x29")),
        labels={**OF_EXPORTS, "instance": "five:9295", "topic": "orders"},
        description="The table of topic `orders` last had all records 1h 30m 0s ago.",
    ),
    Case(
        alert="DisklessExportRetentionNear",
        at=15,
        fires=(export("retention_seconds_left", "7200x20"),),
        quiet=(export("retention_seconds_left", "90000x20"), export("retention_seconds_left", "7200x8 90000x20")),
        labels={**OF_EXPORTS, "topic": "orders"},
        description="Topic `orders`: a record that its table does not have is deleted in 2h 0m 0s.",
    ),
)
