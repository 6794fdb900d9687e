import { writeFile } from 'node:fs/promises';
import { commerceDocument } from './openapi.ts';

/** Writes docs/openapi/commerce.json (`npm run docs`). */
const file = new URL('../../../../docs/openapi/commerce.json', import.meta.url);
await writeFile(file, `${JSON.stringify(commerceDocument(), undefined, 2)}\n`);
