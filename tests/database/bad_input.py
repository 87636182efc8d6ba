"""Calls that make no sense, and what each is answered with.

Values are SQL; %(name)s stands for an id of the test's world, and gone is the id of nothing.
"""

from __future__ import annotations

LONG = "repeat('x', 10000)"
RESULT = "jsonb_build_object('document_id', %(gone)s::text, 'ocr_data', 1)"
LOCK = {"p_document_id": "%(claimed)s", "p_lock_token": "%(token)s"}
SENSELESS_FILTERS = [
    "null",
    "'null'",
    "'[]'",
    """'{"ids": "nope"}'""",
    """'{"nope": 1}'""",
    """'{"lane": "nope"}'""",
    """'{"error_category": "nope"}'""",
    """'{"status": "nope"}'""",
    """'{"name": " "}'""",
]

# A function, arguments that are sound, and for each of its parameters values that are not.
SENSELESS: list[tuple[str, dict[str, str], dict[str, list[str]]]] = [
    (
        "claim_documents",
        {"p_worker_id": "'w'"},
        {
            "p_worker_id": ["null", "''", "' '", LONG],
            "p_lanes": ["array['nope']", "array['image', 'nope']", "array[null]::text[]"],
            "p_limit": ["null", "0", "-1", "1001"],
            "p_lock_timeout": ["null", "0", "-1", "86401"],
        },
    ),
    (
        "wait_for_documents",
        {},
        {"p_lanes": ["array['nope']", "array['image', 'nope']", "array[null]::text[]"]},
    ),
    (
        "acquire_document_lock",
        {"p_document_id": "%(queued)s", "p_worker_id": "'w'"},
        {"p_worker_id": ["null", "''", LONG], "p_lock_timeout": ["null", "0", "-1"]},
    ),
    ("extend_document_lock", LOCK, {"p_lock_timeout": ["null", "0", "-1"]}),
    (
        "save_document_pages",
        LOCK | {"p_engine": "'rapid'", "p_version": "'1'", "p_pages": "'[]'"},
        {
            "p_pages": [
                "null",
                "'null'",
                "'{}'",
                "'[1]'",
                "'[{}]'",
                """'[{"page_number": 0}]'""",
                """'[{"page_number": -1}]'""",
                """'[{"page_number": 1}, {"page_number": 1}]'""",
                """'[{"page_number": 1, "status": "nope"}]'""",
                """'[{"page_number": 1, "status": "failed"}]'""",
                """'[{"page_number": 1, "status": "read", "error": "broken"}]'""",
                """'[{"page_number": 1, "confidence": 1.1}]'""",
                """'[{"page_number": 1, "lines": {}}]'""",
                """'[{"page_number": 1, "width": -1}]'""",
                """'[{"page_number": 1, "processing_time_ms": -1}]'""",
            ],
            "p_engine": ["null", "''", LONG],
            "p_version": ["null", "''", LONG],
            "p_profile": ["null", "''", LONG],
            "p_page_count": ["-1"],
        },
    ),
    (
        "process_ocr_atomic",
        LOCK | {"p_ocr_data": "'{}'", "p_confidence": "0.5", "p_processing_time_ms": "1"},
        {
            "p_document_id": ["null"],
            "p_ocr_data": ["null", "'null'", """'{"pages": [1]}'""", """'{"pages": [{}]}'"""],
            "p_confidence": ["1.1", "-0.1", "'NaN'"],
            "p_processing_time_ms": ["-1"],
            "p_engine": ["''", LONG],
            "p_version": ["''", LONG],
            "p_profile": ["''", LONG],
            "p_page_count": ["-1"],
        },
    ),
    (
        "complete_documents",
        {
            "p_document_ids": "array[%(gone)s]",
            "p_lock_tokens": "array[%(gone)s]",
            "p_ocr_data": "array['1'::jsonb]",
            "p_worker_id": "'w'",
            "p_claim_limit": "1",
        },
        {
            "p_document_ids": ["null", "'{}'", "array[null]::uuid[]", "array[%(gone)s, %(gone)s]"],
            "p_lock_tokens": ["null", "'{}'", "array[%(gone)s, %(gone)s]"],
            "p_ocr_data": ["null", "'{}'", "array[null]::jsonb[]", "array['null'::jsonb]"],
            "p_confidences": ["array[1.1]", "array[-0.1]", "array['NaN'::numeric]", "array[1, 1]"],
            "p_processing_times_ms": ["array[-1]", "array[1, 1]"],
            "p_page_counts": ["array[-1]", "array[1, 1]"],
            "p_engine": ["''", LONG],
            "p_version": ["''", LONG],
            "p_profile": ["''", LONG],
            "p_worker_id": ["null", "''", LONG],
            "p_lanes": ["array['nope']", "array[null]::text[]"],
            "p_claim_limit": ["null", "-1", "1001"],
            "p_lock_timeout": ["null", "0", "-1"],
        },
    ),
    (
        "fail_document",
        LOCK | {"p_error_message": "'broken'"},
        {
            "p_error_message": ["null", "''", "repeat('x', 100001)"],
            "p_error_category": ["null", "'nope'"],
            "p_retry_after": ["-1", "86401"],
        },
    ),
    (
        "release_documents",
        {"p_documents": "'[]'"},
        {
            "p_documents": ["null", "'null'", "'{}'", "'[1]'"],
            "p_reason": ["null", "''", "repeat('x', 10001)"],
        },
    ),
    (
        "move_to_dead_letter_queue",
        LOCK | {"p_error_message": "'broken'"},
        {
            "p_error_message": ["null", "''", "repeat('x', 100001)"],
            "p_error_category": ["null", "'nope'"],
        },
    ),
    ("recover_stuck_documents", {}, {"p_stuck_minutes": ["null", "-1"]}),
    (
        "pause_lane",
        {"p_lane": "'pdf'", "p_reason": "'because'"},
        {"p_lane": ["null", "'nope'"], "p_reason": ["null", "''", LONG]},
    ),
    ("resume_lane", {"p_lane": "'pdf'"}, {"p_lane": ["null", "'nope'", LONG]}),
    (
        "create_case",
        {"p_name": "'Mine'"},
        {
            "p_name": ["null", "''", "' '", LONG],
            "p_kind": ["null", "'nope'"],
            "p_owner": ["%(gone)s"],
            "p_inbox": ["true"],
        },
    ),
    (
        "share_case",
        {"p_case_id": "%(case)s", "p_user_id": "%(owner)s"},
        {"p_user_id": ["null", "%(gone)s"], "p_role": ["''", "'owner'"]},
    ),
    (
        "safe_document_reupload_v2",
        {
            "p_case_id": "%(case)s",
            "p_document_name": "'new'",
            "p_new_dropbox_path": "'/files/1'",
            "p_file_extension": "'png'",
        },
        {
            "p_case_id": ["null", "%(gone)s"],
            "p_document_name": ["null", "''", "' '", LONG],
            "p_new_dropbox_path": ["''", LONG],
            "p_file_extension": [LONG],
            "p_ocr_status": ["'nope'", "'completed'"],
            "p_lane": ["'nope'"],
            "p_sha256": ["''", "'nope'", "repeat('A', 64)"],
            "p_size_bytes": ["-1"],
            "p_mime_type": [LONG],
            "p_priority": ["null", "1001", "-1001"],
            "p_engine": ["''", LONG],
            "p_language": ["''", LONG],
            "p_profile": ["''", LONG],
        },
    ),
    (
        "add_documents",
        {
            "p_case_id": "%(case)s",
            "p_documents": """'[{"name": "new"}]'""",
            "p_lane": "'image'",
        },
        {
            "p_case_id": ["null", "%(gone)s"],
            "p_documents": [
                "null",
                "'{}'",
                "'[1]'",
                "'[{}]'",
                """'[{"name": ""}]'""",
                """'[{"name": " "}]'""",
                f"jsonb_build_array(jsonb_build_object('name', {LONG}))",
                """'[{"name": "good"}, {"name": "new", "sha256": "nope"}]'""",
                """'[{"name": "new", "size_bytes": -1}]'""",
                f"jsonb_build_array(jsonb_build_object('name', 'new', 'engine', {LONG}))",
            ],
            "p_lane": ["null", "'nope'"],
            "p_priority": ["null", "1001"],
        },
    ),
    (
        "route_document",
        {"p_document_id": "%(pending)s", "p_lane": "'image'"},
        {"p_lane": ["null", "'nope'"], "p_notes": ["repeat('x', 10001)"]},
    ),
    (
        "request_webhook",
        {"p_document_id": "%(completed)s", "p_url": "'https://example.org/'"},
        {
            "p_url": [
                "null",
                "''",
                "'ftp://example.org/'",
                "'https://'",
                "'https://a b'",
                LONG,
            ]
        },
    ),
    (
        "claim_webhooks",
        {},
        {"p_limit": ["null", "0", "1001"], "p_lease_seconds": ["null", "0", "3601"]},
    ),
    ("files_removed", {"p_ids": "array[1]"}, {"p_ids": ["null"]}),
    ("files_to_remove", {}, {"p_limit": ["null", "0", "1001"]}),
    (
        "unknown_files",
        {"p_paths": "array[%(case)s || '/x/y']"},
        {"p_paths": ["null", "array['x']", "array[null]", "array_fill(''::text, array[10001])"]},
    ),
    (
        "read_again",
        {"p_document_id": "%(completed)s"},
        {"p_engine": ["''", LONG], "p_language": ["''", LONG], "p_profile": ["''", LONG]},
    ),
    (
        "resolve_dead_letter",
        {"p_dlq_id": "%(dlq)s", "p_action": "'requeue'"},
        {"p_action": ["null", "'nope'"], "p_notes": ["repeat('x', 10001)"]},
    ),
    (
        "resolve_dead_letters",
        {"p_filter": """'{"lane": "image"}'""", "p_action": "'requeue'"},
        {
            "p_filter": [
                "null",
                "'null'",
                "'[]'",
                "'{}'",
                """'{"ids": null}'""",
                """'{"ids": "nope"}'""",
                """'{"nope": 1}'""",
                """'{"lane": "nope"}'""",
                """'{"lane": "image", "error_category": "nope"}'""",
                """'{"status": "nope"}'""",
                """'{"name": " "}'""",
            ],
            "p_action": ["null", "'nope'"],
            "p_notes": ["repeat('x', 10001)"],
        },
    ),
    (
        "list_dead_letters",
        {},
        {"p_filter": SENSELESS_FILTERS, "p_limit": ["null", "0", "201"]},
    ),
    (
        "dead_letter_groups",
        {},
        {
            "p_filter": SENSELESS_FILTERS,
            "p_limit": ["null", "0", "201"],
            "p_offset": ["null", "-1"],
        },
    ),
    ("count_dead_letters", {}, {"p_filter": SENSELESS_FILTERS}),
    (
        "document_history",
        {"p_document_id": "%(queued)s"},
        {"p_limit": ["null", "0", "201"]},
    ),
    ("stuck_documents", {}, {"p_limit": ["null", "0", "201"]}),
    (
        "give_back_documents",
        {"p_documents": "'[]'"},
        {"p_documents": ["null", "'null'", "'{}'", "'[1]'"]},
    ),
    (
        "route_documents",
        {"p_document_ids": "array[%(pending)s]", "p_lane": "'image'"},
        {
            "p_document_ids": ["null", "'{}'"],
            "p_lane": ["null", "'nope'"],
            "p_notes": ["repeat('x', 10001)"],
        },
    ),
    (
        "refuse_documents",
        {"p_document_ids": "array[%(pending)s]", "p_reason": "'because'"},
        {"p_document_ids": ["null", "'{}'"], "p_reason": ["null", "''", "repeat('x', 10001)"]},
    ),
    (
        "list_tasks",
        {},
        {
            "p_kind": ["'nope'"],
            "p_whose": ["null", "'nope'"],
            "p_priority": ["'nope'"],
            "p_limit": ["null", "0", "201"],
        },
    ),
    (
        "create_task",
        {"p_title": "'Call the archive'"},
        {
            "p_title": ["null", "''", "' '", LONG],
            "p_description": ["' '", "repeat('x', 10001)"],
            "p_priority": ["null", "'nope'"],
            "p_assigned_to": ["%(owner)s", "%(gone)s"],
        },
    ),
    (
        "assign_task",
        {"p_task_id": "%(task)s"},
        {"p_user_id": ["%(owner)s", "%(gone)s"]},
    ),
    (
        "set_task_priority",
        {"p_task_id": "%(task)s", "p_priority": "'urgent'"},
        {"p_priority": ["null", "'nope'"]},
    ),
    (
        "end_task",
        {"p_task_id": "%(task)s"},
        {"p_status": ["null", "'pending'"], "p_notes": ["' '", "repeat('x', 10001)"]},
    ),
    (
        "list_documents",
        {},
        {
            "p_deleted": ["null"],
            "p_name": [LONG],
            "p_limit": ["null", "0", "-1", "201"],
        },
    ),
    ("list_people", {}, {"p_search": ["' '", LONG], "p_limit": ["null", "0", "-1", "201"]}),
    ("list_doubts", {}, {"p_limit": ["null", "0", "-1", "201"]}),
    (
        "correct_page",
        {"p_document_id": "%(completed)s", "p_page_number": "1", "p_base_version": "0"},
        {"p_text": ["repeat('x', 10000001)"], "p_lines": ["'{}'", "'null'", "'1'"]},
    ),
    (
        "type_text",
        {"p_document_id": "%(pending)s", "p_pages": """'[{"page_number": 1}]'"""},
        {
            "p_pages": [
                "null",
                "'[]'",
                "'{}'",
                "'[{}]'",
                """'[{"page_number": 0}]'""",
                """'[{"page_number": 1}, {"page_number": 1}]'""",
                """jsonb_build_array(jsonb_build_object(
                  'page_number', 1, 'text', repeat('x', 10000001)
                ))""",
            ]
        },
    ),
    ("results_by_hour", {}, {"p_hours": ["null", "0", "-1", "721"]}),
    (
        "search_documents",
        {"p_query": "'some'"},
        {
            "p_query": ["null", "''", LONG],
            "p_limit": ["null", "0", "-1", "201"],
            "p_offset": ["null", "-1"],
        },
    ),
    (
        "cancel_document",
        {"p_document_id": "%(queued)s"},
        {"p_reason": ["repeat('x', 10001)"]},
    ),
]

# Ids of nothing are no error of the caller's: something may just have gone.
GONE = {
    "acquire_document_lock(%(gone)s, 'w')": "DOCUMENT_NOT_FOUND",
    "cancel_case(%(gone)s)": "CASE_NOT_FOUND",
    "cancel_document(%(gone)s)": "DOCUMENT_NOT_FOUND",
    "correct_page(%(gone)s, 1, 0, 'x')": "DOCUMENT_NOT_FOUND",
    "correct_page(%(completed)s, 2, 0, 'x')": "PAGE_NOT_FOUND",
    "correct_page(%(completed)s, null, 0, 'x')": "PAGE_NOT_FOUND",
    "correct_page(%(completed)s, 1, 7, 'x')": "EDITED_MEANWHILE",
    "correct_page(%(completed)s, 1, null, 'x')": "EDITED_MEANWHILE",
    "delete_case(%(gone)s)": "CASE_NOT_FOUND",
    "delete_document(%(gone)s)": "DOCUMENT_NOT_FOUND",
    "erase_case(%(gone)s)": "CASE_NOT_FOUND",
    "erase_document(%(gone)s)": "DOCUMENT_NOT_FOUND",
    "extend_document_lock(%(claimed)s, %(gone)s)": "LOCK_LOST",
    "extend_document_lock(%(claimed)s, null)": "LOCK_LOST",
    "extend_document_lock(%(gone)s, %(token)s)": "DOCUMENT_NOT_FOUND",
    "fail_document(%(claimed)s, %(gone)s, 'broken')": "LOCK_LOST",
    "fail_document(%(gone)s, %(token)s, 'broken')": "DOCUMENT_NOT_FOUND",
    "move_to_dead_letter_queue(%(claimed)s, 'broken')": "DOCUMENT_LOCKED",
    "move_to_dead_letter_queue(%(gone)s, 'broken')": "DOCUMENT_NOT_FOUND",
    "process_ocr_atomic(%(claimed)s, '{}', 0.5, 1)": "DOCUMENT_LOCKED",
    "process_ocr_atomic(%(gone)s, '{}', 0.5, 1)": "DOCUMENT_NOT_FOUND",
    "document_progress(%(gone)s)": "DOCUMENT_NOT_FOUND",
    "read_again(%(gone)s)": "DOCUMENT_NOT_FOUND",
    "request_webhook(%(gone)s, 'https://example.org/')": "DOCUMENT_NOT_FOUND",
    "resolve_dead_letter(%(gone)s, 'requeue')": "DEAD_LETTER_NOT_FOUND",
    "restore_document(%(gone)s)": "DOCUMENT_NOT_FOUND",
    "route_document(%(gone)s, 'image')": "DOCUMENT_NOT_FOUND",
    "save_document_pages(%(claimed)s, %(gone)s, '[]', 'rapid', '1')": "LOCK_LOST",
    "save_document_pages(%(gone)s, %(token)s, '[]', 'rapid', '1')": "DOCUMENT_NOT_FOUND",
    "share_case(%(gone)s, %(owner)s)": "CASE_NOT_FOUND",
    "assign_task(%(gone)s, %(admin)s)": "TASK_NOT_FOUND",
    "end_task(%(gone)s)": "TASK_NOT_FOUND",
    "set_task_priority(%(gone)s, 'low')": "TASK_NOT_FOUND",
    """type_text(%(gone)s, '[{"page_number": 1}]')""": "DOCUMENT_NOT_FOUND",
    """type_text(%(pending)s, '[{"page_number": 1}]')""": "WRONG_STATE",
}

# Where many are named, or nothing was promised, the answer says how little was done.
NOTHING_DONE = {
    "complete_documents(array[%(gone)s], array[%(gone)s], array['1'::jsonb])": {
        "refusal": "DOCUMENT_NOT_FOUND"
    },
    "has_role(%(admin)s, null)": False,
    "has_role(%(gone)s, 'admin')": False,
    "has_role(null, 'admin')": False,
    "recover_stuck_documents(0, array[%(gone)s])": {"recovered": 0},
    f"release_documents(jsonb_build_array({RESULT}))": {"success": False, "released": []},
    """resolve_dead_letters('{"ids": ["nope"]}', 'requeue')""": {"resolved": 0},
    "files_removed(array[0])": 0,
    """give_back_documents('[{"document_id": null}]')""": {"done": 0},
    "route_documents(array[%(gone)s], 'image')": {"done": 0},
    "refuse_documents(array[%(gone)s], 'because')": {"done": 0},
    "settle_webhook(%(gone)s, 1)": False,
    "settle_webhook(%(gone)s, null)": False,
}

# Where Postgres itself refuses what is no date or id, so there is no hint of ours.
MALFORMED = {
    """resolve_dead_letters('{"case_id": "nope"}', 'requeue')""": "22P02",
    """resolve_dead_letters('{"failed_before": "nope"}', 'requeue')""": "22007",
    """save_document_pages(null, null, '[{"page_number": "nope"}]', 'rapid', '1')""": "22P02",
    """release_documents('[{"document_id": "nope"}]')""": "22P02",
    """complete_documents(array['nope']::uuid[], array[%(gone)s], array['{}'::jsonb])""": "22P02",
    """add_documents(%(case)s, '[{"name": "new", "size_bytes": "x"}]', 'image')""": "22P02",
}

# Parameters of which every value of their type makes sense.
TAKES_ANYTHING = {
    ("correct_page", "p_approved"),
    ("correct_page", "p_base_version"),
    ("correct_page", "p_page_number"),
    ("document_history", "p_document_id"),
    ("fail_document", "p_error_details"),
    ("files_to_remove", "p_after"),
    ("has_role", "p_role"),
    ("list_dead_letters", "p_before"),
    ("list_dead_letters", "p_before_id"),
    ("list_documents", "p_before"),
    ("list_documents", "p_before_id"),
    ("list_documents", "p_case_id"),
    ("list_documents", "p_lane"),
    ("list_documents", "p_status"),
    ("list_doubts", "p_after"),
    ("list_doubts", "p_after_id"),
    ("list_doubts", "p_case_id"),
    ("list_people", "p_admin"),
    ("list_people", "p_after"),
    ("list_people", "p_after_id"),
    ("list_tasks", "p_after"),
    ("list_tasks", "p_after_id"),
    ("list_tasks", "p_after_urgency"),
    ("move_to_dead_letter_queue", "p_error_details"),
    ("page_versions", "p_document_id"),
    ("page_versions", "p_page_number"),
    ("recover_stuck_documents", "p_document_ids"),
    ("release_documents", "p_outage"),
    ("search_documents", "p_case_id"),
    ("search_documents", "p_language"),
    ("settle_webhook", "p_attempt"),
    ("settle_webhook", "p_error"),
    ("settle_webhook", "p_final"),
}
