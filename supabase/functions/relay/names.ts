/** The functions of supabase/config.toml; a test compares the two. */
export const NAMES: ReadonlySet<string> = new Set([
  "alerts",
  "documents",
  "jobs",
  "ocr-universal",
  "ocr-worker",
  "pdf-extract",
  "pdf-worker",
  "pool-manager",
  "pubsub",
  "retention",
  "stale-monitor",
  "upload-to-dropbox",
  "volume-orchestrator",
  "webhooks",
]);
