import type { DescService } from '@bufbuild/protobuf';
import type { OperationId } from '../../services/contract/operation.ts';
import type { ActionName } from '../actions/permissions.ts';

/** Why an operation has no door of a kind. The texts are the legend of docs/doors.md. */
export const HOLES = {
  shopper: 'A shopper does it in the shop’s portal, which calls the RPC as an internal service.',
  partner: 'Only partners’ systems do it, with data that people do not have at hand.',
  person: 'A person must see the return and decide. A system would decide without seeing it.',
  secret: 'The answer is a secret, which must not enter the conversation with an assistant.',
  money:
    'It moves money, or says what happened to money. Only operators do it. The audit log records each use.',
  operator: 'Operators set it up for a shop; a mistake stops the processing of all its returns.',
  provider: 'Only a commerce provider calls it: at an address of its own, signed with its secret.',
  browser: 'Only a browser opens it, during an install at Shopify.',
  internal: 'Only our own services call it, to do their work.',
  covered: 'Another operation of this door reads or does the same.',
  reading: 'Operators read with SQL or as a partner; commands are for changes.',
  acting: 'Operators change no data of a shop in the name of its people.',
  privacy:
    'It removes personal data for ever. The back office does it, after it has identified the shopper.',
  page: 'A page of the portal shows it to the people of the shop, as a picture.',
  tuning: 'A setting that shops rarely change. Internal services of the back office set it.',
  heavy:
    'The tools of assistants together have at most 9,000 tokens, and this one is needed seldom: a person does it on the page of the webhook.',
  none: 'Nobody has asked for it yet.',
} as const;
export type Hole = keyof typeof HOLES;

/** The doors of one operation: its names behind each kind of door, or why there are none. */
export interface Doors {
  readonly rest: readonly OperationId[] | Hole;
  readonly mcp: readonly ActionName[] | Hole;
  /** Commands of `npm run admin --`, such as `shop create`; or `import`, which is `npm run import`. */
  readonly admin: readonly string[] | Hole;
}

/** The doors of each RPC of a service. */
export type DoorsOf<S extends DescService> = { readonly [Rpc in keyof S['method']]: Doors };
