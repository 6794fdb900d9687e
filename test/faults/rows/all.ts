import type { Row } from '../row.ts';
import { sigkillRows } from './sigkill.ts';

/** The suite, in the order in which it is run and printed. */
export const ROWS: readonly Row[] = [...sigkillRows];
