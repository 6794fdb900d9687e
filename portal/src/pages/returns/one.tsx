import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Group, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { Return, ReturnComment } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { Facts } from '../../parts/facts.tsx';
import { Fold } from '../../parts/fold.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { Needs } from '../../parts/needs.tsx';
import { OutsideLink } from '../../parts/outside-link.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { idOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { inWords } from '../../words.ts';
import { REFUSED_ID, ReturnActions } from './actions.tsx';
import { Amounts } from './amounts.tsx';
import { byText } from './by-text.ts';
import { FraudPanel } from './fraud.tsx';
import { LabelsPanel } from './labels.tsx';
import { LinesPanel } from './lines.tsx';
import styles from './one.module.css';
import { Result } from './result.tsx';

const Cancelled = lazyPart(async () => (await import('./cancelled.tsx')).Cancelled, 2);
const SinceFlagged = lazyPart(async () => (await import('./since-flagged.tsx')).SinceFlagged, 1);
const Timeline = lazyPart(async () => (await import('./timeline.tsx')).Timeline, 6);

const route = getRouteApi('/returns/$returnId');

const BACK = (
  <Anchor component={Link} to="/returns" size="sm">
    ← All returns
  </Anchor>
);

export function ReturnPage() {
  const { returnId } = route.useParams();
  const { getReturn } = ReturnsService.method;
  const query = useQuery(
    getReturn,
    { returnId: idOr0(returnId) },
    {
      refetchInterval: ({ state }) => (state.data?.return?.summary?.processing ? 2_000 : 30_000),
    },
  );
  return (
    <Needs method={getReturn}>
      <Loaded query={query} title={`Return ${returnId}`} back={BACK}>
        {(found) => found.return && <Content about={found.return} />}
      </Loaded>
    </Needs>
  );
}

function Content({ about }: { readonly about: Return }) {
  const { can } = useSession();
  const { summary } = about;
  if (!summary) return null;
  return (
    <>
      {BACK}
      <PageHead
        title={`Return of ${summary.orderName}`}
        about={
          <Group gap="xs">
            <Status state={summary.state} />
            {summary.processing && <Status state="running" />}
            <Text span size="sm">
              Return {summary.id}, submitted <Time at={summary.createdAt} />
            </Text>
          </Group>
        }
        actions={<ReturnActions about={about} />}
      />
      <Notices about={about} />
      <div className={styles.columns}>
        <Stack gap="md">
          <LinesPanel about={about} />
          <Amounts about={about} />
          <LabelsPanel labels={about.labels} currency={about.currency} />
        </Stack>
        <Stack gap="md">
          <Panel title="About this return">
            <Meanings of={['Outcome']} />
            <Facts rows={factsOf(about)} />
            <Fold title="Details for support">
              <Facts rows={supportFactsOf(about)} />
            </Fold>
          </Panel>
          {can(ReturnsService.method.getFraudReport) && <FraudPanel about={about} />}
          {can(ReturnsService.method.listTimeline) && <Timeline about={about} />}
        </Stack>
      </div>
    </>
  );
}

/** What needs the reader's attention. */
function Notices({ about }: { readonly about: Return }) {
  const { can } = useSession();
  const { state = '', flagReasons = [], processing } = about.summary ?? {};
  return (
    <Stack gap="sm" mb="md">
      <Result about={about} />
      {state === 'cancelled' && can(ReturnsService.method.listTimeline) && (
        <Cancelled about={about} />
      )}
      {state === 'review' && (
        <Alert color="yellow" title="Somebody must review this return">
          {/* Describes the disabled button. What happened since then would be too long for that. */}
          <div id={REFUSED_ID}>
            It is not processed until the review ends.
            {flagReasons.length > 0 && (
              <Bullets items={flagReasons.map((reason) => [reason, reason])} />
            )}
            {about.reviewComment && <ReviewComment comment={about.reviewComment} />}
          </div>
          {can(ReturnsService.method.listTimeline) && <SinceFlagged about={about} />}
        </Alert>
      )}
      {processing ? (
        <Alert id={REFUSED_ID} color="blue" role="status">
          This return is being processed or cancelled. The page shows the result when it is there.
        </Alert>
      ) : (
        state === 'open' &&
        about.processingRefused !== '' && (
          <Alert id={REFUSED_ID} color="yellow" role="status" title="It cannot be processed now">
            {about.processingRefused}
          </Alert>
        )
      )}
    </Stack>
  );
}

/** What somebody wrote when they put the return into review. */
function ReviewComment({ comment }: { readonly comment: ReturnComment }) {
  return (
    <Text size="sm" mt="xs" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      Comment of {byText(comment.by)}, <Time at={comment.at} />: {comment.text}
    </Text>
  );
}

function factsOf(about: Return) {
  const { summary } = about;
  return [
    ['Shopper', summary?.customerName],
    ['E-mail', summary?.customerEmail && <LongText key="email" text={summary.customerEmail} />],
    ['Outcome', inWords(summary?.outcome ?? '')],
    ['Travels by', inWords(about.returnMethod)],
    ['Destination', about.destinationName],
    ['Parcel reference', about.packageReference],
    ['Changed', <Time key="changed" at={summary?.updatedAt} />],
    ['Archived', about.archivedAt && <Time key="archived" at={about.archivedAt} />],
    [
      'Status page',
      about.statusPageUrl !== '' && (
        <OutsideLink key="page" url={about.statusPageUrl}>
          Open the shopper's page
        </OutsideLink>
      ),
    ],
  ] as const;
}

function supportFactsOf({ summary, providerOrderId, revision, lines }: Return) {
  return [
    ['Type', inWords(summary?.type ?? '')],
    ['Order id', providerOrderId === '0' ? undefined : providerOrderId],
    ['Revision', revision],
    ...lines.map(({ id, title }) => [`Line item ${id}`, title] as const),
  ] as const;
}
