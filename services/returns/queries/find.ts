import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  FindReturnRequest,
  FindReturnsRequest,
  FoundReturnSchema,
  GetReturnsRequest,
  GetSnapshotRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError, invalidField } from '../../platform/errors.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import { returnNotFound } from '../errors.ts';
import type { ReturnReader } from '../store/return-reader.ts';
import { type Selector, selectReturns } from './select.ts';

export interface FindDeps {
  readonly pool: pg.Pool;
  readonly reader: ReturnReader;
}

/** Maximum number of selectors in one call of FindReturns. */
const MAX_FOUND = 32;

const batch = z.object({
  ...callerShape,
  returnIds: z.array(id).min(1, 'must hold at least one id').max(100, 'must hold at most 100 ids'),
});

/**
 * Reads several returns in the order of the request, each once. Returns that the shop does not have are left out.
 * Always returns the first return, and stops before the first return that does not fit into the response. The caller
 * must request the others again.
 *
 * @throws DomainError INVALID_ARGUMENT.
 */
export async function getReturns(
  reader: ReturnReader,
  request: GetReturnsRequest,
): Promise<readonly Return[]> {
  const { shopId, returnIds } = parseInput(batch, request);
  return reader.page(shopId, returnIds);
}

/**
 * Reads the newest return with this return id, order name or order id. An order id is first searched among this
 * service's own ids, and only then among those of the commerce provider. Waits for a permit when the return is large.
 *
 * @throws DomainError INVALID_ARGUMENT when the selector is absent; RETURN_NOT_FOUND; ANSWER_TOO_LARGE.
 */
export async function findReturn(
  { pool, reader }: FindDeps,
  request: FindReturnRequest,
): Promise<Return> {
  const { shopId, selector, maxBytes } = request;
  if (selector.case === undefined) throw invalidField('selector', 'is required');
  if (maxBytes < 0) throw invalidField('max_bytes', 'must not be negative');
  const [id] = await selectReturns(pool, shopId, [selector]);
  if (id === undefined) throw returnNotFound();
  const found = await reader.one(shopId, id, { maxBytes });
  if (!found) throw returnNotFound();
  return found;
}

const selectorInput = z.custom<Selector>(
  (one) => typeof one === 'object' && one !== null && 'case' in one && one.case !== undefined,
  'is required',
);

const selection = z.object({
  ...callerShape,
  selectors: z
    .array(z.object({ selector: selectorInput }))
    .min(1, 'must hold at least one')
    .max(MAX_FOUND, `must hold at most ${MAX_FOUND}`),
});

/**
 * Finds several returns as {@link findReturn} does, each once, usually with one statement. Returns that the shop does
 * not have, or that do not fit into the response, are left out.
 *
 * @throws DomainError INVALID_ARGUMENT when a selector is absent, or when there are more than 32.
 */
export async function findReturns(
  { pool, reader }: FindDeps,
  request: FindReturnsRequest,
): Promise<MessageInitShape<typeof FoundReturnSchema>[]> {
  const { shopId, selectors } = parseInput(selection, request);
  const selectedIds = await selectReturns(
    pool,
    shopId,
    selectors.map((one) => one.selector),
  );
  const positions = new Map<bigint, number[]>();
  selectedIds.forEach((returnId, position) => {
    if (returnId === undefined) return;
    const earlier = positions.get(returnId);
    if (earlier) earlier.push(position);
    else positions.set(returnId, [position]);
  });
  const found = await reader.small(shopId, [...positions.keys()]);
  return found.map((ret) => ({ positions: positions.get(ret.id) ?? [], return: ret }));
}

const snapshotInput = z.object({ ...callerShape, returnId: id, revision: id });

/**
 * Reads a return at the revision of an event that has no snapshot. The current revision always exists. Older revisions
 * exist as long as their events.
 *
 * @throws DomainError INVALID_ARGUMENT; RETURN_NOT_FOUND.
 */
export async function getSnapshot(
  reader: ReturnReader,
  request: GetSnapshotRequest,
): Promise<Return> {
  const { shopId, returnId, revision } = parseInput(snapshotInput, request);
  const found = await reader.atRevision({ shopId, returnId, revision });
  if (!found) throw returnNotFound();
  if (found.revision === revision) return found;
  throw new DomainError(
    Code.NotFound,
    ErrorReason.RETURN_NOT_FOUND,
    `revision ${revision} of the return is not stored`,
  );
}
