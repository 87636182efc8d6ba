"""Senseless calls about volumes; see bad_input.py, of which this is a part."""

from __future__ import annotations

LONG = "repeat('x', 10000)"
HELD = {"p_task_id": "%(task_in_hand)s", "p_token": "%(stage_token)s"}
SECONDS = ["null", "0", "-1", "43201"]
STAGES = ["null", "'nope'", "'pending'", "'done'"]
VOLUME = """'[{"bdrc_w_id": "W1", "bdrc_i_id": "I1"}]'"""
CONFIGS = [
    "'[]'",
    """'{"nope": 1}'""",
    """'{"k_factor": "much"}'""",
    """'{"merge_lines": 1}'""",
    """'{"encoding": true}'""",
]

SENSELESS: list[tuple[str, dict[str, str], dict[str, list[str]]]] = [
    (
        "create_volume_job",
        {"p_volumes": VOLUME},
        {
            "p_volumes": [
                "null",
                "'null'",
                "'{}'",
                "'[]'",
                "'[1]'",
                "'[{}]'",
                """'[{"bdrc_w_id": "W1"}]'""",
                """'[{"bdrc_w_id": "W1", "bdrc_i_id": ".."}]'""",
                """'[{"bdrc_w_id": "a/b", "bdrc_i_id": "I1"}]'""",
                """'[{"bdrc_w_id": "W1", "bdrc_i_id": ""}]'""",
                """'[{"bdrc_w_id": "W 1", "bdrc_i_id": "I1"}]'""",
            ],
            "p_job_key": ["''", "'a/b'", "'..'", "'a b'", LONG],
            "p_config": ["null", *CONFIGS],
            "p_max_attempts": ["null", "0", "-1", "101"],
            "p_stage_seconds": SECONDS,
        },
    ),
    ("cancel_volume_job", {"p_job_id": "%(job)s"}, {"p_reason": ["' '", "repeat('x', 10001)"]}),
    (
        "rerun_volumes",
        {"p_job_id": "%(job)s"},
        {"p_stage": ["'nope'", "'pending'", "'done'"], "p_config": CONFIGS},
    ),
    ("list_volume_jobs", {}, {"p_status": ["'nope'"], "p_limit": ["null", "0", "201"]}),
    ("list_volume_tasks", {"p_job_id": "%(job)s"}, {"p_limit": ["null", "0", "201"]}),
    ("volume_history", {"p_task_id": "%(task_in_hand)s"}, {"p_limit": ["null", "0", "201"]}),
    (
        "receive_volume_messages",
        {"p_stages": "array['ocr']"},
        {
            "p_stages": ["null", "'{}'", "array['nope']", "array['ocr', null]"],
            "p_limit": ["null", "0", "101"],
            "p_visibility": ["null", "-1", "43201"],
        },
    ),
    (
        "extend_volume_message",
        {"p_stage": "'ocr'", "p_handle": "1", "p_seconds": "1"},
        {"p_stage": STAGES, "p_seconds": ["null", "-1", "43201"]},
    ),
    ("remove_volume_message", {"p_stage": "'ocr'", "p_handle": "1"}, {"p_stage": STAGES}),
    (
        "start_volume_stage",
        {
            "p_task_id": "%(task_queued)s",
            "p_stage": "'line_detection'",
            "p_attempt": "1",
            "p_worker_id": "'w'",
        },
        {
            "p_stage": STAGES,
            "p_worker_id": ["null", "''", LONG],
            "p_lock_seconds": SECONDS,
        },
    ),
    (
        "extend_volume_lock",
        HELD,
        {"p_lock_seconds": SECONDS, "p_pages_done": ["-1"], "p_pages_total": ["-1"]},
    ),
    (
        "complete_volume_stage",
        HELD | {"p_pages": "2"},
        {
            "p_pages": ["null", "-1"],
            "p_failed_pages": ["null", "-1", "3"],
            "p_metrics": ["null", "'[]'", """'{"x": {}}'""", """'{"x": true}'"""],
        },
    ),
    (
        "fail_volume_stage",
        HELD | {"p_error": """'{"message": "broken"}'"""},
        {
            "p_error": ["null", "'[]'", "'{}'", """'{"message": 1}'"""],
            "p_category": ["null", "'nope'"],
            "p_retry_after": ["-1", "43201"],
        },
    ),
    ("release_volume_stage", HELD, {"p_reason": ["null", "''", "repeat('x', 10001)"]}),
    (
        "orchestrate_volumes",
        {},
        {
            "p_queue": ["null", "'nope'"],
            "p_limit": ["null", "0", "10001"],
            "p_process": ["null", "''", LONG],
        },
    ),
    (
        "claim_volume_outbox",
        {},
        {"p_limit": ["null", "0", "1001"], "p_lease_seconds": SECONDS},
    ),
    ("settle_volume_outbox", {"p_messages": "'[]'"}, {"p_messages": ["null", "'{}'", "'[1]'"]}),
    (
        "republish_volumes",
        {"p_stage": "'ocr'"},
        {"p_stage": STAGES, "p_older_seconds": ["null", "-1", "1209601"]},
    ),
]

GONE = {
    "cancel_volume_job(0)": "VOLUME_JOB_NOT_FOUND",
    "complete_volume_stage(%(task_in_hand)s, %(gone)s, 1)": "LOCK_LOST",
    "complete_volume_stage(%(task_in_hand)s, null, 1)": "LOCK_LOST",
    "complete_volume_stage(0, %(stage_token)s, 1)": "LOCK_LOST",
    "extend_volume_lock(%(task_in_hand)s, %(gone)s)": "LOCK_LOST",
    "extend_volume_lock(%(task_in_hand)s, null)": "LOCK_LOST",
    """fail_volume_stage(%(task_in_hand)s, %(gone)s, '{"message": "x"}')""": "LOCK_LOST",
    "release_volume_stage(%(task_in_hand)s, %(gone)s)": "LOCK_LOST",
    "rerun_volumes(0)": "VOLUME_JOB_NOT_FOUND",
    "start_volume_stage(%(task_in_hand)s, 'line_detection', 1, 'w')": "STAGE_HELD",
    "start_volume_stage(%(task_queued)s, 'line_detection', 2, 'w')": "STALE_MESSAGE",
    "start_volume_stage(%(task_queued)s, 'line_detection', null, 'w')": "STALE_MESSAGE",
    "start_volume_stage(%(task_queued)s, 'ocr', 1, 'w')": "STALE_MESSAGE",
    "start_volume_stage(0, 'ocr', 1, 'w')": "STALE_MESSAGE",
    "volume_board(0)": "VOLUME_JOB_NOT_FOUND",
}

NOTHING_DONE = {
    "extend_volume_message('ocr', 0, 1)": False,
    "remove_volume_message('ocr', null)": False,
    """settle_volume_outbox('[{"task_id": 0, "attempt": 1}]')""": 0,
}

TAKES_ANYTHING = {
    ("cancel_volume_job", "p_job_id"),
    ("complete_volume_stage", "p_skipped"),
    ("complete_volume_stage", "p_task_id"),
    ("extend_volume_lock", "p_task_id"),
    ("extend_volume_message", "p_handle"),
    ("fail_volume_stage", "p_task_id"),
    ("list_volume_jobs", "p_before"),
    ("list_volume_jobs", "p_before_id"),
    ("list_volume_tasks", "p_after_id"),
    ("list_volume_tasks", "p_after_rank"),
    ("list_volume_tasks", "p_by_id"),
    ("list_volume_tasks", "p_job_id"),
    ("list_volume_tasks", "p_stage"),
    ("list_volume_tasks", "p_status"),
    ("release_volume_stage", "p_outage"),
    ("release_volume_stage", "p_task_id"),
    ("remove_volume_message", "p_handle"),
    ("rerun_volumes", "p_job_id"),
    ("rerun_volumes", "p_only_failed"),
    ("rerun_volumes", "p_task_ids"),
    ("start_volume_stage", "p_attempt"),
    ("start_volume_stage", "p_task_id"),
    ("volume_board", "p_job_id"),
    ("volume_history", "p_task_id"),
}
