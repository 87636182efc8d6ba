// Embedded Supabase Lite, an independent implementation of PostgREST.
// The first argument is the configuration. It prints its port when it is listening, and exits
// at the end of standard input, so that it never outlives the tests.
// Differences between Lite 0.10 and the documentation of PostgREST are corrected here.

import { serve } from "@hono/node-server";
import { App } from "@supabase/lite";
import { createPostgresConnection } from "@supabase/lite/postgres";

const { url, jwtSecret, publishableKey, secretKey } = JSON.parse(process.argv[2]);

// PostgREST returns values as to_json() does, Lite in the text format of Postgres.
const isoTime = (text) => text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
// Lite encodes a JSON argument that its driver would encode again.
const json = (value) => (typeof value === "string" ? value : JSON.stringify(value));

const connection = createPostgresConnection({
  url,
  postgresOptions: {
    // Lite reads information_schema, which shows only tables on which the role has rights.
    connection: { role: "service_role" },
    onnotice: () => {},
    types: {
      json: { to: 114, from: [114], serialize: json, parse: JSON.parse },
      jsonb: { to: 3802, from: [3802], serialize: json, parse: JSON.parse },
      numeric: { to: 1700, from: [1700], serialize: String, parse: Number },
      timestamp: { to: 1114, from: [1114], serialize: String, parse: isoTime },
      timestamptz: { to: 1184, from: [1184], serialize: String, parse: isoTime },
    },
  },
});

// Otherwise the first request would grant all rights to all roles, because tables have RLS.
connection.rlsState = "active";

// PostgREST forwards every SQLSTATE with its hint, Lite only some. In both a function can set
// the response by raising PGRST, so other errors are converted to that.
const forwarded = /^(42|PT|PGRST)/;
const statusOfClass = { "08": 503, 23: 409, 40: 500, 53: 503, 55: 500, 57: 500 };
const documented = (error) => {
  if (error.name !== "PostgresError" || forwarded.test(error.code)) return error;
  const { code, message, detail: details = null, hint = null } = error;
  const status = statusOfClass[code.slice(0, 2)] ?? 400;
  return Object.assign(new Error(JSON.stringify({ code, message, details, hint })), {
    code: "PGRST",
    detail: JSON.stringify({ status, headers: {} }),
  });
};
const withContext = connection.withContext.bind(connection);
connection.withContext = (...args) =>
  withContext(...args).catch((error) => Promise.reject(documented(error)));

const app = new App({
  connection,
  api: { enabled: true, schemas: ["public"] },
  auth: {
    enabled: false,
    jwt_secret: jwtSecret,
    publishable_key: publishableKey,
    secret_key: secretKey,
  },
  db: { migrations: { enabled: false } },
  storage: { enabled: false },
  studio: { enabled: false },
  options: {
    server: {
      middlewares: [
        // PostgREST trusts a valid token; Lite looks up its user, which fails without auth.
        (context, next) => {
          context.set("authService", { repo: { findUserById: () => true } });
          return next();
        },
      ],
    },
  },
});

serve({ fetch: (request) => app.fetch(request), hostname: "127.0.0.1", port: 0 }, ({ port }) =>
  console.log(port),
);
process.stdin.on("end", () => process.exit()).resume();
