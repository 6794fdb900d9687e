import type { Figure, Row } from './row.ts';

/** Puts the table into docs/performance.md. */
export async function writeDocs(_results: ReadonlyMap<Row, readonly Figure[]>, _quick: boolean) {}
