import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { problemsIn } from '../../../deploy/check/problems.ts';
import { renderOverlay } from '../../../deploy/check/render.ts';
import { DEV, PRODUCTION } from '../kubectl.ts';
import { withOverlay } from '../overlay.ts';
import { READY_MS, untilReady } from '../pods.ts';
import { callEveryService, metricByPod, untilEachServed } from '../rpcs.ts';
import { EDGE_NAME, KAFKA_USER, makeSecrets } from '../secrets.ts';
import { makeKey } from '../shop.ts';
import {
  checkNoRestarts,
  clusterIp,
  gatewayUrl,
  secondsSince,
  show,
  type Trial,
} from '../trial.ts';

/**
 * Removes the dev overlay, and installs the production overlay in its namespace, with PostgreSQL (verify-full) and Kafka
 * (TLS, SCRAM-SHA-512) beside it and two replicas of each process. Calls every service through the gateway.
 */
export async function production(trial: Trial): Promise<void> {
  const { check, images } = trial;
  // A node of two cores has no room for both overlays.
  await DEV.kubectl('delete', 'namespace', DEV.name, '--ignore-not-found', '--wait');
  const startedMs = performance.now();
  // Fails if there is such a namespace: it may be somebody's own.
  await PRODUCTION.kubectl('create', '-f', 'deploy/overlays/production/namespace.yaml');
  const { kafkaPassword, ca } = await makeSecrets(PRODUCTION);
  const overlay = {
    path: 'test/cluster/production',
    images: {
      'registry.example.com/rms': images.release,
      'registry.example.com/rms-edge': images.edge,
    },
  };
  await withOverlay(overlay, async (folder) => {
    const problems = await problemsIn(renderOverlay(folder));
    check(`deploy/check.ts refuses nothing ${problems.join('; ')}`, problems.length === 0);
    await PRODUCTION.kubectl('apply', '-k', folder);
  });
  await makeKafkaUser(kafkaPassword);
  await untilReady(PRODUCTION);
  check(`the production overlay is ready after ${secondsSince(startedMs)} s`, true);
  await checkNoRestarts(trial, PRODUCTION);

  const overTls = await statusThroughEdge(ca);
  check(`the edge answers over TLS: ${overTls}`, overTls === 200);
  const url = await gatewayUrl();
  const key = await makeKey();
  let answers: readonly string[] = [];
  const counts = await untilEachServed(PRODUCTION, async () => {
    answers = await callEveryService(url, key);
  });
  check(
    `no call was answered with 5xx: ${answers.join(', ')}`,
    answers.every((one) => one < '500'),
  );
  check(
    `RPCs of each pod: ${show(counts)}`,
    Object.values(counts).every((count) => count > 0),
  );
  const reached = Object.values(await metricByPod(PRODUCTION, () => 'event_bus_up'));
  check(
    `${reached.length} pods reach Kafka`,
    reached.length > 0 && reached.every((up) => up === 1),
  );
}

async function statusThroughEdge(ca: string): Promise<number | undefined> {
  const host = await clusterIp(PRODUCTION, 'edge');
  const servername = EDGE_NAME;
  const req = get({ host, servername, ca, path: '/readyz', headers: { Host: servername } });
  const [res]: IncomingMessage[] = await once(req, 'response');
  return res?.resume().statusCode;
}

/** Makes the user of the services, on the listener that only the pod reaches. */
async function makeKafkaUser(password: string): Promise<void> {
  const timeout = `--timeout=${READY_MS / 1_000}s`;
  await PRODUCTION.kubectl('rollout', 'status', 'statefulset/kafka', timeout);
  const java = ['java', '-Xmx128m', '-cp', '/opt/kafka/libs/*', 'kafka.admin.ConfigCommand'];
  await PRODUCTION.kubectl(
    ...['exec', 'kafka-0', '--', ...java, '--bootstrap-server', 'localhost:9094', '--alter'],
    ...['--entity-type', 'users', '--entity-name', KAFKA_USER],
    ...['--add-config', `SCRAM-SHA-512=[password=${password}]`],
  );
}
