// One relay for all functions: their code runs elsewhere, where it may take
// the memory and the time that reading takes.

import { NAMES } from "./names.ts";
import { relay } from "./relay.ts";

// Supabase ends a request that has no answer after 150 seconds, without a word.
const SECONDS = 140;

Deno.serve(relay({
  names: NAMES,
  upstream: Deno.env.get("PAGEWARDEN_URL"),
  seconds: Number(Deno.env.get("PAGEWARDEN_RELAY_SECONDS")) || SECONDS,
}));
