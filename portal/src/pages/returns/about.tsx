import {
  OutcomeSchema,
  type Return,
  ReturnMethodSchema,
  ReturnTypeSchema,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Fold } from '../../parts/fold.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { OutsideLink } from '../../parts/outside-link.tsx';
import { Panel } from '../../parts/panel.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { inWords, wordOf } from '../../words.ts';
import { DestinationName } from './destination-name.tsx';

/** Who returns, what for, and how it travels. */
export function AboutPanel({ about }: { readonly about: Return }) {
  const { customer, order, outcome, statusPageUrl, archivedAt } = about;
  return (
    <Panel title="About this return">
      <Meanings of={['Outcome']} />
      <Facts
        rows={[
          ['Shopper', [customer?.firstName, customer?.lastName].filter(Boolean).join(' ')],
          ['E-mail', customer?.email && <LongText key="email" text={customer.email} />],
          ['Outcome', inWords(wordOf(OutcomeSchema, outcome).replace('_', '+'))],
          ['Travels by', inWords(wordOf(ReturnMethodSchema, about.returnMethod))],
          [
            'Destination',
            about.destinationId !== 0n && (
              <DestinationName key="destination" id={about.destinationId} />
            ),
          ],
          ['Parcel reference', about.packageReference],
          ['Changed', <Time key="changed" at={about.updatedAt} />],
          ['Archived', archivedAt && <Time key="archived" at={archivedAt} />],
          [
            'Status page',
            statusPageUrl !== '' && (
              <OutsideLink key="page" url={statusPageUrl}>
                Open the shopper's page
              </OutsideLink>
            ),
          ],
        ]}
      />
      <Fold title="Details for support">
        <Facts
          rows={[
            ['Type', inWords(wordOf(ReturnTypeSchema, about.type))],
            ['Order id', order?.providerOrderId ? String(order.providerOrderId) : undefined],
            ['Policy version', about.policyVersion ? String(about.policyVersion) : undefined],
            ['Revision', String(about.revision)],
            ...about.lineItems.map(
              ({ lineItemId, title }) => [`Line item ${lineItemId}`, title] as const,
            ),
          ]}
        />
      </Fold>
    </Panel>
  );
}
