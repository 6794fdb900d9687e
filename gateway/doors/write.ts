import { writeFile } from 'node:fs/promises';
import { doorsPage } from './page.ts';

/** Writes docs/doors.md (`npm run docs`). */
await writeFile(new URL('../../docs/doors.md', import.meta.url), doorsPage());
