// The relay of all functions: their code runs on another server, where memory
// and time suffice for OCR.

import { NAMES } from "./names.ts";
import { relay } from "./relay.ts";

// Supabase aborts a request without a response after 150 seconds.
const TIMEOUT_SECONDS = 140;

Deno.serve(relay({
  names: NAMES,
  upstream: Deno.env.get("PAGEWARDEN_URL"),
  seconds: Number(Deno.env.get("PAGEWARDEN_RELAY_SECONDS")) || TIMEOUT_SECONDS,
}));
