import { useQuery } from '@connectrpc/connect-query';
import { Alert, Button, Group, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import {
  type CheckRun,
  CommerceService,
  type CheckRun_Step as Step,
} from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Fold } from '../../parts/fold.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { count, sentence } from '../../words.ts';
import styles from './check.module.css';
import { CommerceDocs } from './commerce-docs.tsx';

/** While a check runs. Milliseconds. */
const READ_EVERY_MS = 1_500;
/** Otherwise: a colleague may begin one. Milliseconds. */
const IDLE_EVERY_MS = 10_000;

/** Asks the endpoint every question of the documentation, and shows each answer when it is known. */
export function CheckPanel({ url }: { readonly url: string }) {
  const { getLastCheck, startCheck } = CommerceService.method;
  const query = useQuery(
    getLastCheck,
    {},
    {
      refetchInterval: ({ state }) => (isRunning(state.data?.run) ? READ_EVERY_MS : IDLE_EVERY_MS),
    },
  );
  const [id, setId] = useState('');
  const [name, setName] = useState('');
  const { run: start, isPending } = useWrite(startCheck, {});
  const run = query.data?.run;
  const running = isRunning(run);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start({ testOrderName: name, ...(id !== '' && { testOrderId: BigInt(id) }) });
  };
  return (
    <Panel
      title="Check"
      about={
        <>
          We send about 90 requests with test values, and judge signatures, idempotency, errors,
          money and time. Each says sandbox: your system must move no money for it. <CommerceDocs />
        </>
      }
    >
      <Stack gap="md">
        <form onSubmit={submit}>
          <Stack gap="sm" align="flex-start">
            <Fold title="Also look up an order of yours">
              <SimpleGrid cols={{ base: 1, sm: 2 }} mt="xs">
                <TextInput
                  label="Id of an order for tests"
                  inputMode="numeric"
                  pattern="[1-9][0-9]{0,15}"
                  required={name !== ''}
                  withAsterisk={false}
                  value={id}
                  onChange={({ currentTarget }) => setId(currentTarget.value.trim())}
                />
                <TextInput
                  label="Its name"
                  description="Your system must then find the order by it."
                  maxLength={191}
                  value={name}
                  onChange={({ currentTarget }) => setName(currentTarget.value)}
                />
              </SimpleGrid>
            </Fold>
            <Button type="submit" loading={isPending || running}>
              {run ? 'Check again' : 'Check the connection'}
            </Button>
          </Stack>
        </form>
        <Loaded query={query} rows={2}>
          {() => run && <Results run={run} isOld={run.url !== url} />}
        </Loaded>
      </Stack>
    </Panel>
  );
}

function isRunning(run: CheckRun | undefined): boolean {
  return run !== undefined && !run.endedAt && !run.interrupted;
}

function Results({ run, isOld }: { readonly run: CheckRun; readonly isOld: boolean }) {
  const current = isRunning(run) ? run.steps.findIndex(({ answered }) => !answered) : -1;
  return (
    <Stack gap="sm">
      {isOld && (
        <Alert color="yellow" title="These are the results of another address">
          {run.url} was checked. Check the present address.
        </Alert>
      )}
      <div role="status">
        <Text size="sm" fw={600}>
          {summaryOf(run)}
        </Text>
        <SecondLine>
          Begun <Time at={run.startedAt} />
        </SecondLine>
      </div>
      <ol className={styles.steps}>
        {run.steps.map((step, place) => (
          <li key={step.check} className={styles.step}>
            <Group justify="space-between" wrap="nowrap" align="flex-start">
              <Text size="sm">{sentence(step.title)}</Text>
              <Status state={stateOf(step, { isCurrent: place === current, run })} />
            </Group>
            {step.problems.length > 0 && (
              <Bullets
                items={step.problems.map((problem) => [problem, sentence(problem)] as const)}
              />
            )}
          </li>
        ))}
      </ol>
    </Stack>
  );
}

function stateOf(
  { answered, problems }: Step,
  { isCurrent, run }: { readonly isCurrent: boolean; readonly run: CheckRun },
): string {
  if (answered) return problems.length > 0 ? 'failed' : 'passed';
  if (isCurrent) return 'running';
  return isRunning(run) ? 'waiting' : 'not_asked';
}

function summaryOf(run: CheckRun): string {
  const { steps } = run;
  const answered = steps.filter((step) => step.answered);
  const failed = answered.filter(({ problems }) => problems.length > 0).length;
  const sum = `${count(failed, 'question')} of ${steps.length} failed`;
  if (isRunning(run))
    return `${answered.length} of ${steps.length} are answered, ${failed} failed.`;
  if (run.interrupted) return `The check was interrupted. ${sum} until then. Check again.`;
  if (answered.length < steps.length)
    return 'The first question failed, so the others were not asked.';
  return failed === 0 ? `All ${steps.length} questions passed.` : `${sum}.`;
}
