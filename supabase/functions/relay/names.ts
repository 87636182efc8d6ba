/** The functions of supabase/config.toml, which a test compares with this. */
export const NAMES: ReadonlySet<string> = new Set([
  "documents",
  "ocr-universal",
  "ocr-worker",
  "pdf-extract",
  "pdf-worker",
  "retention",
  "stale-monitor",
  "upload-to-dropbox",
  "volume-orchestrator",
  "webhooks",
]);
