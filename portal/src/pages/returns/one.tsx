import { useQuery } from '@connectrpc/connect-query';
import { Alert, Group, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  type Return,
  ReturnState,
  ReturnStateSchema,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { type Loadable, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { idOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { wordOf } from '../../words.ts';
import { type Checked, checkOf, isUndecided, REFUSED_ID, type ReturnCheck } from './check.ts';
import styles from './one.module.css';

const ReturnActions = lazyPart(async () => (await import('./actions.tsx')).ReturnActions, 1);
const AboutPanel = lazyPart(async () => (await import('./about.tsx')).AboutPanel, 6);
const Amounts = lazyPart(async () => (await import('./amounts.tsx')).Amounts, 6);
const ArrivalsPanel = lazyPart(async () => (await import('./arrivals.tsx')).ArrivalsPanel, 2);
const notice = (name: keyof typeof import('./state-notices.tsx'), rows = 1) =>
  lazyPart(async () => (await import('./state-notices.tsx'))[name], rows);
const Cancelled = notice('Cancelled', 2);
const ReviewComment = notice('ReviewComment');
const SinceFlagged = notice('SinceFlagged');
const Result = notice('Result');
const FraudPanel = lazyPart(async () => (await import('./fraud.tsx')).FraudPanel, 3);
const LinesPanel = lazyPart(async () => (await import('./lines.tsx')).LinesPanel, 8);
const LabelsPanel = lazyPart(async () => (await import('./labels.tsx')).LabelsPanel, 2);
const Timeline = lazyPart(async () => (await import('./timeline.tsx')).Timeline, 6);

const route = getRouteApi('/returns/$returnId');

const BACK = (
  <Text size="sm">
    <Link to="/returns">← All returns</Link>
  </Text>
);

export function ReturnPage() {
  const { returnId } = route.useParams();
  const { findReturn } = ReturnsService.method;
  const value = BigInt(idOr0(returnId));
  const query = useQuery(
    findReturn,
    { selector: { case: 'returnId', value } },
    {
      refetchInterval: ({ state }) => (state.data?.return?.processing ? 2_000 : 30_000),
    },
  );
  const check = useReturnCheck(value, query.data?.return);
  const title = `Return ${returnId}`;
  return (
    <Loaded query={query} title={title} back={BACK}>
      {({ return: about }) =>
        about && (
          <Loaded query={check} title={title} back={BACK}>
            {(found) => <Content about={about} check={found} />}
          </Loaded>
        )
      }
    </Loaded>
  );
}

/**
 * What processing and cancelling would do. A return that has ended, and a user who may do neither, need no check. The
 * page stays the same then, with an open dialog and what was typed into it.
 */
function useReturnCheck(returnId: bigint, about: Return | undefined): Loadable<ReturnCheck> {
  const { checkReturn } = ReturnsService.method;
  const enabled = useSession().can(checkReturn) && (!about || isUndecided(about));
  const query = useQuery(checkReturn, { returnId }, { enabled, refetchInterval: 30_000 });
  const { data, error, isPending, refetch } = query;
  if (!enabled) return { data: checkOf(undefined), error: null, isPending: false, refetch };
  return { data: data && checkOf(data), error, isPending, refetch };
}

function Content({ about, check }: Checked) {
  const { canCall } = useSession();
  return (
    <>
      {BACK}
      <PageHead
        title={`Return of ${about.order?.name ?? ''}`}
        about={
          <Group gap="xs">
            <Status state={wordOf(ReturnStateSchema, about.state)} />
            {about.processing && <Status state="running" />}
            <Text span size="sm">
              Return {String(about.id)}, submitted <Time at={about.createdAt} />
            </Text>
          </Group>
        }
        actions={<ReturnActions about={about} check={check} />}
      />
      <Notices about={about} check={check} />
      <div className={styles.columns}>
        <Stack gap="md">
          <LinesPanel about={about} check={check} />
          {hasArrived(about) && canCall('ReturnsService/ListArrivals') && (
            <ArrivalsPanel about={about} />
          )}
          <Amounts about={about} check={check} />
          <LabelsPanel about={about} />
        </Stack>
        <Stack gap="md">
          <AboutPanel about={about} />
          {canCall('FraudService/GetReport') && <FraudPanel about={about} />}
          <Timeline about={about} />
        </Stack>
      </div>
    </>
  );
}

function hasArrived({ lineItems, unexpectedQuantity }: Return): boolean {
  return unexpectedQuantity > 0 || lineItems.some(({ arrivedQuantity }) => arrivedQuantity > 0);
}

/** Whether processing has ended, or has made something. */
function hasResult({ state, exchangeOrders, giftCardOrder, refunds }: Return): boolean {
  return state === ReturnState.CLOSED || Boolean(giftCardOrder ?? exchangeOrders[0] ?? refunds[0]);
}

/** What needs the reader's attention. */
function Notices({ about, check }: Checked) {
  const { state, flagReasons, processing } = about;
  return (
    <Stack gap="sm" mb="md">
      {hasResult(about) && <Result about={about} />}
      {state === ReturnState.CANCELLED && <Cancelled about={about} />}
      {state === ReturnState.REVIEW && (
        <Alert color="yellow" title="Somebody must review this return">
          {/* Describes the disabled button. What happened since then would be too long for that. */}
          <div id={REFUSED_ID}>
            It is not processed until the review ends.
            {flagReasons.length > 0 && (
              <Bullets items={flagReasons.map((reason) => [reason, reason])} />
            )}
            <ReviewComment about={about} />
          </div>
          <SinceFlagged about={about} />
        </Alert>
      )}
      {processing ? (
        <Alert id={REFUSED_ID} color="blue" role="status">
          This return is being processed or cancelled. The page shows the result when it is there.
        </Alert>
      ) : (
        state === ReturnState.OPEN &&
        check.processingRefused !== '' && (
          <Alert id={REFUSED_ID} color="yellow" role="status" title="It cannot be processed now">
            {check.processingRefused}
          </Alert>
        )
      )}
    </Stack>
  );
}
