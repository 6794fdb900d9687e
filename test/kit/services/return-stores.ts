import type pg from 'pg';
import {
  createInspectionStore,
  type InspectionStore,
} from '../../../services/returns/inspections/inspection-store.ts';
import type { AutomaticProcess } from '../../../services/returns/policy/automatic.ts';
import { createLargeWork } from '../../../services/returns/store/large.ts';
import { createReturnReader } from '../../../services/returns/store/return-reader.ts';
import type { ReturnStore } from '../../../services/returns/store/return-store.ts';
import { createReturnStore } from '../../../services/returns/store/return-store.ts';
import { silentLogger } from './telemetry.ts';

// The stores of the returns service over a pool, for tests that call a use case without the service.

export function storeOf(pool: pg.Pool, automatic?: AutomaticProcess): ReturnStore {
  return createReturnStore({ pool, large: createLargeWork(), ...(automatic && { automatic }) });
}

export function inspectionsOf(pool: pg.Pool, automatic?: AutomaticProcess): InspectionStore {
  return createInspectionStore({ pool, large: createLargeWork(), ...(automatic && { automatic }) });
}

/** What most use cases that change returns need. */
export function changeDeps(pool: pg.Pool) {
  return { pool, store: storeOf(pool), logger: silentLogger() };
}

/** What queries need. */
export function queryDeps(pool: pg.Pool) {
  return { pool, reader: createReturnReader({ pool, large: createLargeWork() }) };
}
