import type { DescService } from '@bufbuild/protobuf';
import type { OperationId } from '../../services/contract/operation.ts';
import type { ActionName } from '../actions/permissions.ts';

/** Why an operation has no door of a kind. The texts are the legend of docs/doors.md. */
export const HOLES = {
  shopper:
    'A shopper does this on pages of the shop. These pages call the RPC as the internal service `portal`.',
  partner: 'Only systems of partners do this, because it needs data that people do not have.',
  person:
    'A person must see the return and decide. A system would decide without seeing the return.',
  secret: 'The response has a secret, which must not be in the conversation with an assistant.',
  money:
    'The operation moves money, or records what happened to money. Only operators use it, and the audit log records each use.',
  operator:
    'Only operators do this for a shop, because a mistake stops the processing of all returns of the shop.',
  member:
    'Members of the shop do this in the portal. A system or an assistant could harm the whole shop by a mistake.',
  provider:
    'Only a commerce provider does this, at a separate address and signed with the provider’s secret.',
  browser: 'Only a browser opens this address, during an install at Shopify.',
  internal: 'Only our own services call this RPC, for their work.',
  covered: 'Another operation of the same column reads or does the same.',
  reading: 'Operators read data with SQL or over REST. Admin commands are for changes.',
  acting: 'Operators do not act for the members of a shop.',
  privacy:
    'The operation deletes personal data permanently. Only the back office uses it, after it has identified the shopper.',
  page: 'Only a page of the portal shows this to the members of the shop, as a picture.',
  tuning: 'Shops rarely change this setting. Internal services of the back office set it.',
  heavy:
    'A tool for this would be used seldom, and all tools together have at most 9,000 tokens. A person does this on the page of the webhook.',
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
