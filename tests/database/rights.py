"""Who may do what: one line for each table, view and function of schema public.

The people: nobody has a token that names no person, a stranger has nothing to do with the case,
viewer and editor share it, admin belongs to HAC. The machines: service holds the secret key of the
API, worker logs in as pagewarden_worker.
"""

from __future__ import annotations

ACTORS = ["anon", "nobody", "stranger", "viewer", "editor", "owner", "admin", "service", "worker"]

# no: refused with 42501. none: no rows. own: what speaks of the reader. case: what belongs to the
# case. all: everything.
READS = """
                     anon nobody stranger viewer editor owner admin service worker
alert_metrics        no   none   none     none   none   none  all   all     no
alert_notices        no   none   none     none   none   none  all   all     no
alert_rules          no   none   none     none   none   none  all   all     no
alert_silences       no   none   none     none   none   none  all   all     no
alerts               no   none   none     none   none   none  all   all     no
case_members         no   none   none     case   case   case  all   all     no
cases                no   none   none     case   case   case  all   all     no
check_images         no   none   none     case   case   case  all   all     no
check_jobs           no   none   none     case   case   case  all   all     no
check_results        no   none   none     case   case   case  all   all     no
documents            no   none   none     case   case   case  all   all     no
edge_function_config no   none   none     none   none   none  all   all     no
extraction_queue     no   none   none     case   case   case  all   all     no
hac_acts             no   none   none     case   case   case  all   all     no
hac_logs             no   none   none     case   case   case  all   all     no
lanes                no   none   all      all    all    all   all   all     no
ocr_dead_letter      no   none   none     case   case   case  all   all     no
ocr_errors           no   none   none     case   case   case  all   all     no
ocr_pages            no   none   none     case   case   case  all   all     no
ocr_processing_logs  no   none   none     case   case   case  all   all     no
ocr_runs             no   none   none     case   case   case  all   all     no
ocr_success_criteria no   no     no       no     no     no    all   all     no
ocr_system_health    no   no     no       no     no     no    all   all     no
page_corrections     no   none   none     case   case   case  all   all     no
page_doubts          no   none   none     case   case   case  all   all     no
page_texts           no   none   none     case   case   case  all   all     no
pending_uploads      no   none   none     none   none   own   none  all     no
tasks                no   none   none     none   none   none  all   all     no
user_roles           no   none   none     none   none   own   all   all     no
volume_jobs          no   none   none     none   none   case  all   all     no
volume_results       no   none   none     none   none   case  all   all     no
volume_runs          no   none   none     none   none   case  all   all     no
volume_tasks         no   none   none     none   none   case  all   all     no
volumes              no   none   none     none   none   case  all   all     no
webhooks             no   none   none     case   case   case  all   all     no
"""

# Which rows belong to the case or to the check job, or speak of the reader.
_DOCUMENT = "document_id in (select id from documents where case_id in (%(case)s, %(check)s))"
OF_THE_CASE = {
    "check_images": "job_id = %(check)s",
    "check_jobs": "id = %(check)s",
    "check_results": "job_id = %(check)s",
    "case_members": "case_id in (%(case)s, %(check)s)",
    "cases": "id in (%(case)s, %(check)s)",
    "documents": "case_id in (%(case)s, %(check)s)",
    "extraction_queue": "case_id in (%(case)s, %(check)s)",
    "hac_acts": "case_id in (%(case)s, %(check)s)",
    "hac_logs": "case_id in (%(case)s, %(check)s)",
    "ocr_dead_letter": "case_id in (%(case)s, %(check)s)",
    "ocr_errors": "case_id in (%(case)s, %(check)s)",
    "ocr_pages": "case_id in (%(case)s, %(check)s)",
    "ocr_processing_logs": _DOCUMENT,
    "ocr_runs": _DOCUMENT,
    "page_corrections": "case_id in (%(case)s, %(check)s)",
    "page_doubts": "case_id in (%(case)s, %(check)s)",
    "page_texts": "case_id in (%(case)s, %(check)s)",
    "webhooks": f"{_DOCUMENT} or job_id = %(check)s",
    "volume_jobs": "user_id = %(owner)s",
    "volume_results": "task_id in (select id from volume_tasks where job_id = %(job)s)",
    "volume_runs": "job_id = %(job)s",
    "volume_tasks": "job_id = %(job)s",
    "volumes": "id in (select volume_id from volume_tasks where job_id = %(job)s)",
}
OWN = {"pending_uploads": "requested_by = %(owner)s", "user_roles": "user_id = %(owner)s"}

# Everything else that writes is refused: rows change by the functions below.
WRITES = {
    ("service", "edge_function_config"): {"insert", "update", "delete"},
    ("service", "extraction_queue"): {"insert", "update"},
    ("service", "user_roles"): {"insert", "update", "delete"},
}

# Statements that must succeed for the service role, column by column where not all are granted.
SERVICE_WRITES = [
    "insert into user_roles (user_id, role) values (%(stranger)s, 'user')",
    "update user_roles set role = 'user' where user_id = %(admin)s",
    "delete from user_roles where user_id = %(admin)s",
    "insert into edge_function_config (function_name) values ('another')",
    "update edge_function_config set enabled = false where function_name = 'ocr-worker'",
    "update edge_function_config set lanes = '{image,check}' where function_name = 'ocr-worker'",
    "delete from edge_function_config where function_name = 'ocr-worker'",
    """
    insert into extraction_queue (case_id, document_source, document_name)
    values (%(case)s, 'acte', 'another') returning id
    """,
    "update extraction_queue set status_id = 2, worker_id = 'x' where id = %(awaiting)s",
    """
    update lanes set max_attempts = 5, max_rescues = 5, backoff_seconds = 5, probe_seconds = 5,
      backoff_cap_seconds = 5, attempt_seconds = 5, failed_pages_allowed = 0.5
    """,
]
SERVICE_REFUSED_WRITES = [
    "update lanes set paused_at = now(), pause_kind = 'manual', pause_reason = 'because'",
    "update lanes set probe_token = null",
    "delete from extraction_queue",
]

# no: refused with 42501.
CALLS = """
                          anon nobody stranger viewer editor owner admin service worker
acquire_document_lock     no   no     no       no     no     no    no    yes     yes
acquire_document_lock_v7  no   no     no       no     no     no    no    yes     yes
add_documents             no   no     no       no     yes    yes   yes   yes     no
add_temporary_file        no   no     no       no     no     no    no    yes     no
apply_retention           no   no     no       no     no     no    no    yes     no
assign_pool               no   no     no       no     no     no    no    yes     yes
assign_task               no   no     no       no     no     no    yes   yes     no
begin_dispatch            no   no     no       no     no     no    no    yes     yes
begin_function_run        no   no     no       no     no     no    no    yes     no
cancel_case               no   no     no       no     no     yes   yes   yes     no
cancel_check_job          no   no     no       no     yes    yes   yes   yes     no
cancel_document           no   no     no       no     yes    yes   yes   yes     no
cancel_volume_job         no   no     no       no     no     yes   yes   yes     no
case_contents             no   no     no       yes    yes    yes   yes   yes     no
check_job                 no   no     no       yes    yes    yes   yes   yes     no
claim_alert_notices       no   no     no       no     no     no    no    yes     no
claim_documents           no   no     no       no     no     no    no    yes     yes
claim_volume_outbox       no   no     no       no     no     no    no    yes     yes
claim_webhooks            no   no     no       no     no     no    no    yes     no
complete_check            no   no     no       no     no     no    no    yes     yes
complete_documents        no   no     no       no     no     no    no    yes     yes
complete_volume_stage     no   no     no       no     no     no    no    yes     yes
confirm_upload            no   none   none     none   none   yes   none  yes     no
correct_page              no   no     no       no     yes    yes   yes   yes     no
count_dead_letters        no   yes    yes      yes    yes    yes   yes   yes     no
count_old_check_jobs      no   no     no       no     no     no    no    yes     no
create_case               no   no     yes      yes    yes    yes   yes   yes     no
create_task               no   no     no       no     no     no    yes   yes     no
create_volume_job         no   no     yes      yes    yes    yes   yes   yes     no
dead_letter_groups        no   yes    yes      yes    yes    yes   yes   yes     no
decide_check              no   no     no       no     yes    yes   yes   yes     no
delete_case               no   no     no       no     no     yes   yes   yes     no
delete_document           no   no     no       no     no     yes   yes   yes     no
document_archive          no   no     no       no     no     no    no    yes     no
document_history          no   no     no       yes    yes    yes   yes   yes     no
document_progress         no   no     no       yes    yes    yes   yes   yes     no
end_function_run          no   no     no       no     no     no    no    yes     no
end_silence               no   no     no       no     no     no    yes   yes     no
end_task                  no   no     no       no     no     no    yes   yes     no
erase_archived_document   no   no     no       no     no     no    no    yes     no
erase_case                no   no     no       no     no     yes   yes   yes     no
erase_document            no   no     no       no     no     yes   yes   yes     no
evaluate_alerts           no   no     no       no     no     no    no    yes     no
extend_dispatch           no   no     no       no     no     no    no    yes     yes
extend_document_lock      no   no     no       no     no     no    no    yes     yes
extend_volume_lock        no   no     no       no     no     no    no    yes     yes
extend_volume_message     no   no     no       no     no     no    no    yes     yes
fail_document             no   no     no       no     no     no    no    yes     yes
fail_volume_stage         no   no     no       no     no     no    no    yes     yes
files_removed             no   no     no       no     no     no    no    yes     no
expired_files             no   no     no       no     no     no    no    yes     no
expired_files_removed     no   no     no       no     no     no    no    yes     no
files_to_remove           no   no     no       no     no     no    no    yes     no
get_check                 no   no     no       no     no     no    no    yes     yes
give_back_documents       no   no     no       no     no     no    yes   yes     no
grant_role                no   no     no       no     no     no    yes   yes     no
has_role                  no   yes    yes      yes    yes    yes   yes   yes     no
is_function_enabled       no   no     no       no     no     no    no    yes     yes
lead_pool                 no   no     no       no     no     no    no    yes     yes
list_action_types         no   yes    yes      yes    yes    yes   yes   yes     no
list_acts                 no   yes    yes      yes    yes    yes   yes   yes     no
list_alert_rules          no   no     no       no     no     no    yes   yes     no
list_alerts               no   no     no       no     no     no    yes   yes     no
list_case_people          no   no     no       yes    yes    yes   yes   yes     no
list_cases                no   yes    yes      yes    yes    yes   yes   yes     no
list_check_jobs           no   yes    yes      yes    yes    yes   yes   yes     no
list_dead_letters         no   yes    yes      yes    yes    yes   yes   yes     no
list_documents            no   yes    yes      yes    yes    yes   yes   yes     no
list_doubts               no   yes    yes      yes    yes    yes   yes   yes     no
list_functions            no   no     no       no     no     no    yes   yes     no
list_lanes                no   no     no       no     no     no    yes   yes     no
list_people               no   no     no       no     no     no    yes   yes     no
list_tasks                no   no     no       no     no     no    yes   yes     no
list_volume_jobs          no   yes    yes      yes    yes    yes   yes   yes     no
list_volume_tasks         no   no     no       no     no     yes   yes   yes     no
list_workers              no   no     no       no     no     no    yes   yes     no
move_to_dead_letter_queue no   no     no       no     no     no    no    yes     yes
orchestrate_volumes       no   no     no       no     no     no    no    yes     yes
page_versions             no   no     no       yes    yes    yes   yes   yes     no
pause_lane                no   no     no       no     no     no    yes   yes     no
pool_status               no   no     no       no     no     no    yes   yes     no
process_ocr_atomic        no   no     no       no     no     no    no    yes     yes
purge_check_jobs          no   no     no       no     no     no    no    yes     no
read_again                no   no     no       no     yes    yes   yes   yes     no
receive_volume_messages   no   no     no       no     no     no    no    yes     yes
recover_stuck_documents   no   no     no       no     no     no    yes   yes     no
refuse_documents          no   no     no       no     no     no    yes   yes     no
release_documents         no   no     no       no     no     no    no    yes     yes
release_volume_stage      no   no     no       no     no     no    no    yes     yes
remove_volume_message     no   no     no       no     no     no    no    yes     yes
report_conflict           no   no     no       no     yes    yes   yes   yes     yes
report_gauge              no   no     no       no     no     no    no    yes     no
report_pool               no   no     no       no     no     no    no    yes     yes
republish_volumes         no   no     no       no     no     no    no    yes     yes
request_upload            no   no     no       no     yes    yes   yes   yes     no
request_webhook           no   no     no       no     yes    yes   yes   yes     no
rerun_check_job           no   no     no       no     yes    yes   yes   yes     no
rerun_volumes             no   no     no       no     no     yes   yes   yes     no
resolve_dead_letter       no   no     no       no     no     no    yes   yes     no
resolve_dead_letters      no   no     no       no     no     no    yes   yes     no
restore_case              no   no     no       no     no     yes   yes   yes     no
restore_document          no   no     no       no     no     yes   yes   yes     no
results_by_hour           no   no     no       no     no     no    yes   yes     no
resume_lane               no   no     no       no     no     no    yes   yes     no
revoke_role               no   no     no       no     no     no    yes   yes     no
route_document            no   no     no       no     no     no    yes   yes     no
route_documents           no   no     no       no     no     no    yes   yes     no
safe_document_reupload_v2 no   no     no       no     yes    yes   yes   yes     no
save_document_pages       no   no     no       no     no     no    no    yes     yes
search_documents          no   yes    yes      yes    yes    yes   yes   yes     no
set_alert_rule            no   no     no       no     no     no    yes   yes     no
set_function              no   no     no       no     no     no    yes   yes     no
set_task_priority         no   no     no       no     no     no    yes   yes     no
settle_alert_notice       no   no     no       no     no     no    no    yes     no
settle_volume_outbox      no   no     no       no     no     no    no    yes     yes
settle_webhook            no   no     no       no     no     no    no    yes     no
share_case                no   no     no       no     no     yes   yes   yes     no
share_case_by_email       no   no     no       no     no     yes   yes   yes     no
silence_alerts            no   no     no       no     no     no    yes   yes     no
start_volume_stage        no   no     no       no     no     no    no    yes     yes
stuck_documents           no   no     no       no     no     no    yes   yes     no
submit_check_job          no   no     yes      yes    yes    yes   yes   yes     no
sweep_documents           no   no     no       no     no     no    no    yes     yes
system_metrics            no   no     no       no     no     no    no    yes     no
take_engine_call          no   no     no       no     no     no    no    yes     yes
test_alert                no   no     no       no     no     no    yes   yes     no
type_text                 no   no     no       no     no     no    yes   yes     no
unknown_files             no   no     no       no     no     no    no    yes     no
volume_board              no   no     no       no     no     yes   yes   yes     no
volume_history            no   no     no       no     no     yes   yes   yes     no
wait_for_documents        no   no     no       no     no     no    no    yes     yes
"""

# A call of each function that has an effect, if the caller may.
ARGUMENTS = {
    "count_old_check_jobs": "",
    "apply_retention": """'{"bin_days": 30}'""",
    "claim_alert_notices": "1",
    "end_silence": "(select id from alert_silences)",
    "evaluate_alerts": "",
    "list_alert_rules": "",
    "list_alerts": "",
    "report_conflict": "'again and again', %(case)s",
    "report_gauge": "'gpu_service_down', 0",
    "system_metrics": "",
    "set_alert_rule": """'disk-warning', '{"threshold": 0.2}'""",
    "settle_alert_notice": "gen_random_uuid(), 1",
    "silence_alerts": "60, 'known'",
    "test_alert": "'disk-warning'",
    "cancel_check_job": "%(check)s",
    "check_job": "%(check)s",
    "complete_check": """
        %(picture)s, '[{"position": 2, "verdict": "PASS", "extracted_text": "", "issues": []}]',
        0.9, 1, %(seal)s
    """,
    "decide_check": "%(check)s, 1, 'accepted'",
    "get_check": "%(picture)s, %(seal)s",
    "list_check_jobs": "",
    "purge_check_jobs": "",
    "rerun_check_job": "(cancel_check_job(%(check)s)).job_id",
    "submit_check_job": """
        %(new)s, 'fr', jsonb_build_array(jsonb_build_object(
          'name', 'a.png', 'dropbox_path', %(new)s || '/a.png', 'sha256', repeat('0', 64)
        ))
    """,
    "take_engine_call": "'gemini', 4",
    "acquire_document_lock": "%(queued)s, 'w'",
    "acquire_document_lock_v7": "%(queued)s, 'w'",
    "begin_dispatch": "%(claimed)s, %(token)s, gen_random_uuid(), 'w'",
    "add_documents": """%(case)s, '[{"name": "another"}]', 'pdf'""",
    "assign_task": "%(task)s, %(admin)s",
    "cancel_case": "%(case)s",
    "cancel_document": "%(queued)s",
    "claim_documents": "'w'",
    "claim_webhooks": "1",
    "complete_documents": """
        array[%(claimed)s], array[%(token)s], array['{}'::jsonb]
    """,
    "correct_page": "%(completed)s, 1, 1, 'better'",
    "count_dead_letters": "",
    "create_case": "'Mine'",
    "create_task": "'Call the archive'",
    "dead_letter_groups": "",
    "delete_case": "%(case)s",
    "delete_document": "%(queued)s",
    "document_archive": "%(completed)s",
    "document_history": "%(queued)s",
    "document_progress": "%(queued)s",
    "end_task": "%(task)s",
    "erase_case": "%(case)s",
    "erase_archived_document": """
      %(completed)s, private.archive_sha256(public.document_archive(%(completed)s))
    """,
    "erase_document": "%(completed)s",
    "extend_dispatch": "%(claimed)s, %(token)s",
    "extend_document_lock": "%(claimed)s, %(token)s",
    "fail_document": "%(claimed)s, %(token)s, 'broken'",
    "files_removed": "array[1]",
    "files_to_remove": "",
    "expired_files": "",
    "expired_files_removed": "array[1]",
    "add_temporary_file": "'exports/' || %(completed)s || '/a.txt', 60",
    "confirm_upload": "%(upload)s, %(case)s || '/new.pdf', '.pdf'",
    "request_upload": "%(case)s, 'another', repeat('0', 64), 1",
    "give_back_documents": """
        jsonb_build_array(jsonb_build_object(
          'document_id', %(claimed)s::text,
          'claimed_at', (select claimed_at from documents where id = %(claimed)s)
        ))
    """,
    "has_role": "%(admin)s, 'admin'",
    "is_function_enabled": "'ocr-universal'",
    "list_dead_letters": "",
    "list_documents": "",
    "list_doubts": "",
    "list_people": "",
    "list_tasks": "",
    "move_to_dead_letter_queue": "%(claimed)s, 'broken', '{}', 'unknown', %(token)s",
    "page_versions": "%(completed)s, 1",
    "pause_lane": "'pdf', 'because'",
    "process_ocr_atomic": "%(claimed)s, '{}', 0.9, 100, %(token)s",
    "read_again": "%(completed)s",
    "recover_stuck_documents": "0, array[%(claimed)s::uuid]",
    "refuse_documents": "array[%(pending)s::uuid], 'no document'",
    "release_documents": """
        jsonb_build_array(jsonb_build_object(
          'document_id', %(claimed)s::text, 'lock_token', %(token)s::text
        ))
    """,
    "request_webhook": "%(queued)s, 'https://example.org/done'",
    "resolve_dead_letter": "%(dlq)s, 'requeue'",
    "resolve_dead_letters": "jsonb_build_object('case_id', %(case)s::text), 'abandon'",
    "restore_document": "%(deleted)s",
    "results_by_hour": "",
    "resume_lane": "'check'",
    "route_document": "%(pending)s, 'image'",
    "route_documents": "array[%(pending)s::uuid], 'image'",
    "safe_document_reupload_v2": "%(case)s, 'another', %(case)s || '/another', 'pdf'",
    "save_document_pages": """%(claimed)s, %(token)s, '[{"page_number": 1}]', 'rapid', '1'""",
    "search_documents": "'some'",
    "set_task_priority": "%(task)s, 'urgent'",
    "settle_webhook": "%(webhook)s, 0",
    "share_case": "%(case)s, %(stranger)s",
    "stuck_documents": "",
    "sweep_documents": "",
    "type_text": """%(manual)s, '[{"page_number": 1, "text": "by hand"}]'""",
    "unknown_files": "array[%(case)s || '/x/y']",
    "wait_for_documents": "",
    "begin_function_run": "'ocr-worker'",
    "case_contents": "%(case)s",
    "end_function_run": "0, 'completed'",
    "grant_role": "%(stranger)s",
    "list_action_types": "",
    "list_acts": "",
    "list_case_people": "%(case)s",
    "list_cases": "",
    "list_functions": "",
    "list_lanes": "",
    "list_workers": "",
    "report_pool": "'p', array['image'], '[]'",
    "lead_pool": "'p', 60",
    "assign_pool": "'p', 1, '[]', '{}'",
    "pool_status": "",
    "restore_case": "(delete_case(%(case)s)).case_id",
    "revoke_role": "%(stranger)s",
    "set_function": "'ocr-worker', false",
    "share_case_by_email": "%(case)s, %(stranger)s || '@example.org'",
    "cancel_volume_job": "%(job)s",
    "claim_volume_outbox": "",
    "complete_volume_stage": "%(task_in_hand)s, %(stage_token)s, 1",
    "create_volume_job": """'[{"bdrc_w_id": "W1", "bdrc_i_id": "I1"}]'""",
    "extend_volume_lock": "%(task_in_hand)s, %(stage_token)s",
    "extend_volume_message": "'ocr', 1, 1",
    "fail_volume_stage": """%(task_in_hand)s, %(stage_token)s, '{"message": "broken"}'""",
    "list_volume_jobs": "",
    "list_volume_tasks": "%(job)s",
    "orchestrate_volumes": "",
    "receive_volume_messages": "array['ocr']",
    "release_volume_stage": "%(task_in_hand)s, %(stage_token)s",
    "remove_volume_message": "'ocr', 1",
    "republish_volumes": "'ocr'",
    "rerun_volumes": "%(job)s",
    "settle_volume_outbox": "'[]'",
    "start_volume_stage": "%(task_queued)s, 'line_detection', 1, 'w'",
    "volume_board": "%(job)s",
    "volume_history": "%(task_in_hand)s",
}


def matrix(text: str) -> dict[str, dict[str, str]]:
    """Read one of the tables above: what each actor (outer) gets from each thing (inner)."""
    heading, *lines = (line.split() for line in text.strip().splitlines())
    table: dict[str, dict[str, str]] = {actor: {} for actor in heading}
    for thing, *cells in lines:
        for actor, cell in zip(heading, cells, strict=True):
            table[actor][thing] = cell
    return table
