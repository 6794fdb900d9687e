import { useQuery } from '@connectrpc/connect-query';
import { Alert, Button, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { PolicyPreview } from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { Fold } from '../../parts/fold.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { changedParts, type Draft, policyOf } from './draft.ts';

/**
 * What the draft would have done with the returns of the last 90 days.
 *
 * @param o.isValid shows what is wrong with the draft, if something is.
 */
export function Preview({
  draft,
  isValid,
}: {
  readonly draft: Draft;
  readonly isValid: () => boolean;
}) {
  const [judged, setJudged] = useState(draft);
  const query = useQuery(
    ReturnsService.method.previewPolicy,
    { policy: policyOf(judged) },
    { staleTime: 60_000, refetchOnWindowFocus: false },
  );
  const isOld = changedParts(draft, judged).length > 0;
  return (
    <Panel
      title="What it would have done"
      about="With the returns of the last 90 days. Nothing is changed."
    >
      <Stack gap="sm" align="stretch">
        <Button
          variant="default"
          size="xs"
          loading={query.isFetching}
          disabled={!isOld}
          onClick={() => isValid() && setJudged(draft)}
        >
          {isOld ? 'Show it for your changes' : 'It is shown for these rules'}
        </Button>
        <Loaded query={query} rows={3}>
          {({ judged: all, more, refused, reviewed, processed, notJudged }) => (
            <>
              {isOld && (
                <Alert color="yellow">The figures are of the rules before your last changes.</Alert>
              )}
              <Text size="sm" role="status">
                {all === 0
                  ? 'There were no returns in the last 90 days.'
                  : `Of ${more ? 'the newest ' : ''}${count(all, 'return')}:`}
              </Text>
              <Group title="would have been refused" preview={refused} />
              <Group title="would have been put into review" preview={reviewed} />
              <Group title="would have been processed by itself" preview={processed} />
              <Group
                title="cannot be judged, because something was not stored then"
                preview={notJudged}
              />
            </>
          )}
        </Loaded>
      </Stack>
    </Panel>
  );
}

function Group(o: { readonly title: string; readonly preview: PolicyPreview | undefined }) {
  const { can } = useSession();
  const { count: number = 0, examples = [] } = o.preview ?? {};
  if (number === 0) return <Text size="sm">0 {o.title}</Text>;
  const mayOpen = can(ReturnsService.method.findReturn);
  return (
    <Fold title={`${number} ${o.title}`}>
      <Bullets
        items={examples.map(({ returnId, orderName, reason }) => [
          String(returnId),
          <>
            {mayOpen ? (
              <Link to="/returns/$returnId" params={{ returnId: String(returnId) }}>
                {orderName}
              </Link>
            ) : (
              orderName
            )}
            : {reason}
          </>,
        ])}
      />
      {number > examples.length && (
        <Text size="sm" c="dimmed">
          The newest {examples.length} of them.
        </Text>
      )}
    </Fold>
  );
}
