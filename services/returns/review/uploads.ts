import type pg from 'pg';
import { z } from 'zod';
import { CustomerUpload_Kind, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type AddCustomerUploadRequest,
  AddCustomerUploadRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { stateForbids } from '../../platform/values/errors.ts';
import { keyUseOf } from '../../platform/values/idempotency.ts';
import { callerShape, id, parseInput, requiredText, text } from '../../platform/values/input.ts';
import { lineItemNotFound } from '../errors.ts';
import { isOpenOrInReview } from '../return.ts';
import { returnsOfLines } from '../store/line-owners.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { stateText, uploadKindText } from '../store/texts.ts';

const WEB_PROTOCOLS = ['http:', 'https:'];

const upload = z.object({
  ...callerShape,
  lineItemId: id,
  kind: z
    .enum(CustomerUpload_Kind, 'is unknown')
    .refine((value) => value !== CustomerUpload_Kind.UNSPECIFIED, 'is required'),
  url: requiredText(2_048).refine(
    (value) => WEB_PROTOCOLS.includes(URL.parse(value)?.protocol ?? ''),
    'must be an http or https address',
  ),
  source: text(SHORT_TEXT_MAX),
  mediaType: text(SHORT_TEXT_MAX),
});

/**
 * Adds an image or video of the shopper to a line item.
 *
 * @throws DomainError INVALID_ARGUMENT; LINE_ITEM_NOT_FOUND; IDEMPOTENCY_CONFLICT; RETURN_TOO_LARGE; STATE_FORBIDS when
 *   the return is closed, cancelled or expired, or is redacted. A redaction finds returns by their e-mail address, so a
 *   later redaction would not find the upload.
 */
export async function addCustomerUpload(
  { pool, store }: { readonly pool: pg.Pool; readonly store: ReturnStore },
  request: AddCustomerUploadRequest,
): Promise<Return> {
  const input = parseInput(upload, request);
  const [returnId] = await returnsOfLines(pool, input.shopId, [input.lineItemId]);
  if (returnId === undefined) throw lineItemNotFound();
  const isImage = input.kind === CustomerUpload_Kind.IMAGE;
  return store.changeOnce(
    { ...input, returnId, addsInput: true },
    keyUseOf('AddCustomerUpload', AddCustomerUploadRequestSchema, request),
    async (tx, current) => {
      if (!isOpenOrInReview(current.state)) {
        throw stateForbids(`the return is ${stateText.toText(current.state)}`);
      }
      if (await isRedacted(tx, current)) {
        throw stateForbids(
          "the customer's data was removed from this return, so it accepts no uploads",
        );
      }
      if (!current.lineItems.some((line) => line.lineItemId === input.lineItemId)) {
        throw lineItemNotFound();
      }
      await tx.query(
        `insert into uploads (shop_id, return_id, line_item_id, kind, source, media_type, url)
       values ($1, $2, $3, $4, $5, $6, $7)`,
        [
          input.shopId,
          returnId,
          input.lineItemId,
          uploadKindText.toText(input.kind),
          input.source || 'customer',
          isImage ? '' : input.mediaType || 'video',
          input.url,
        ],
      );
      const facts = { line: `${input.lineItemId}` };
      const text = isImage ? 'An image was added' : 'A video was added';
      return { value: undefined, timeline: [{ returnId, kind: 'upload.added', text, facts }] };
    },
  );
}

async function isRedacted(tx: Queryable, of: Pick<Return, 'shopId' | 'id'>): Promise<boolean> {
  const { rowCount } = await tx.query(
    'select from returns where shop_id = $1 and id = $2 and redacted_at is not null',
    [of.shopId, of.id],
  );
  return rowCount !== 0;
}
