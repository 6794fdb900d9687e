import type pg from 'pg';
import { z } from 'zod';
import type {
  Arrival,
  ListArrivalsRequest,
} from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { callerShape, id, parseInput } from '../../platform/values/input.ts';
import { requireReturn } from '../queries/timeline.ts';
import { loadArrivals } from './arrival-store.ts';

const ofReturn = z.object({ ...callerShape, returnId: id });

/**
 * Lists the newest arrivals at a return, newest first, as many as fit into one response.
 *
 * @throws DomainError INVALID_ARGUMENT; RETURN_NOT_FOUND.
 */
export async function listArrivals(
  pool: pg.Pool,
  request: ListArrivalsRequest,
): Promise<Arrival[]> {
  const input = parseInput(ofReturn, request);
  await requireReturn(pool, input);
  return loadArrivals(pool, input);
}
