// Print supabase/database.types.ts for the database of a URL, with Supabase's own generator.
//
//     node scripts/database_types.mjs URL
import { generateTypescript, sortGeneratorMetadata } from "@supabase/postgrest-typegen/generation";
import { introspect } from "@supabase/postgrest-typegen/introspection";
import postgres from "postgres";

const sql = postgres(process.argv[2], { max: 1, onnotice: () => {} });
// The generator expects a node-postgres client, but uses only this method.
const client = { query: async (text, values) => ({ rows: await sql.unsafe(text, values) }) };
const metadata = await introspect(client, { includedSchemas: ["public"] });
process.stdout.write(await generateTypescript(sortGeneratorMetadata(metadata), {}));
await sql.end();
