import { Alert, Box, Code } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import type { Webhook } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { Time } from '../../parts/time.tsx';
import { count, numberText } from '../../words.ts';
import { webhookText } from './name.ts';

const LastError = lazyPart(async () => (await import('./last-error.tsx')).LastError);

/** Number of addresses, and of webhooks of each, that are named, so that what follows stays in view. */
const NAMED = 5;

/**
 * Webhooks whose receiver fails come first, because somebody must do something about them. Those of one address have one
 * cause, so they are named together.
 */
export function FailingWebhooks({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  if (webhooks.length === 0) return null;
  // The newest first: the others are known already.
  const newestFirst = webhooks.toSorted((one, other) => since(other) - since(one));
  const addresses = [...Map.groupBy(newestFirst, ({ url }) => url)].slice(0, NAMED);
  const named = addresses.reduce((sum, [, group]) => sum + Math.min(group.length, NAMED), 0);
  return (
    <Alert color="red" title={count(webhooks.length, 'webhook fails', 'webhooks fail')}>
      <Bullets
        items={addresses.map(([url, group]) => [url, <Address key={url} url={url} of={group} />])}
      />
      {named < webhooks.length && (
        <>{numberText(webhooks.length - named)} more in the table below.</>
      )}
    </Alert>
  );
}

function since({ health }: Webhook): number {
  return Number(health?.failingSince?.seconds ?? 0);
}

/** The failing webhooks of one address, and what went wrong last. @param o.of newest first. */
function Address(o: { readonly url: string; readonly of: readonly Webhook[] }) {
  const failures = o.of.reduce((sum, { health }) => sum + (health?.failures ?? 0), 0);
  return (
    <>
      <LongText text={o.url} />:{' '}
      {o.of.slice(0, NAMED).map((one, place) => (
        <Fragment key={one.id}>
          {place > 0 && ', '}
          <Link to="/webhooks/$webhookId" params={{ webhookId: one.id }}>
            {webhookText(one, { word: 'Webhook' })}
          </Link>{' '}
          <Code>{one.trigger}</Code>
        </Fragment>
      ))}
      . {count(failures, 'attempt')} failed since <Time at={o.of.at(-1)?.health?.failingSince} />.
      {/* Has its line while it is loaded, so that what follows does not jump. */}
      <Box mih="1.55em">
        <LastError webhookId={o.of[0]?.id ?? '0'} />
      </Box>
    </>
  );
}
