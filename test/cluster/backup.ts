import { DEV } from './kubectl.ts';
import { untilReady } from './pods.ts';

const HOME = '/var/lib/postgresql';
const POSTGRES = 'postgres:18-bookworm';

/** A base backup by the server's own functions, as docs/operations.md describes it. */
const BACK_UP = `
set -eu
cd ${HOME}
rm -rf backup
psql -qAtX -U rms_migrator -d rms <<'SQL'
select pg_backup_start('drill', true);
\\! cp -a "$PGDATA" ${HOME}/backup
\\o ${HOME}/backup/backup_label
select labelfile from pg_backup_stop();
SQL
rm -rf backup/pg_wal/* backup/postmaster.pid
`;

/** Puts the backup in the place of the data; the server then reads the archive up to a time. */
const PUT_BACK = `
set -eu
cd ${HOME}
mv 18/docker lost
cp -a backup 18/docker
chmod 700 18/docker
cat >> 18/docker/postgresql.auto.conf <<CONF
restore_command = 'cp ${HOME}/archive/%f %p'
recovery_target_time = '$TARGET'
recovery_target_action = 'promote'
CONF
touch 18/docker/recovery.signal
`;

/** Makes the server archive its log beside its data, which is enough for a drill, and makes a base backup. */
export async function backUp(): Promise<void> {
  await inPostgres('mkdir', '-p', `${HOME}/archive`);
  const archive = `test ! -f ${HOME}/archive/%f && cp %p ${HOME}/archive/%f`;
  const patch = ['--archive_mode=on', `--archive_command=${archive}`].map((value) => ({
    op: 'add',
    path: '/spec/template/spec/containers/0/args/-',
    value,
  }));
  await DEV.kubectl('patch', 'statefulset/postgres', '--type=json', '-p', JSON.stringify(patch));
  await DEV.kubectl('rollout', 'status', 'statefulset/postgres', '--timeout=120s');
  await untilReady(DEV);
  await inPostgres('bash', '-c', BACK_UP);
}

/** What a statement answers, as text. */
export async function query(statement: string): Promise<string> {
  const psql = ['psql', '-qAtX', '-U', 'rms_migrator', '-d', 'rms', '-c', statement];
  return (await inPostgres(...psql)).trim();
}

/** Puts the data back to a time. Nothing may be connected. */
export async function restoreTo(target: string): Promise<void> {
  await DEV.kubectl('scale', 'statefulset/postgres', '--replicas=0');
  await DEV.kubectl('wait', '--for=delete', 'pod/postgres-0', '--timeout=120s');
  await DEV.apply(restoreJob(target));
  await DEV.kubectl('wait', '--for=condition=complete', 'job/restore', '--timeout=120s');
  await DEV.kubectl('delete', 'job/restore', '--wait');
  await DEV.kubectl('scale', 'statefulset/postgres', '--replicas=1');
  await DEV.kubectl('rollout', 'status', 'statefulset/postgres', '--timeout=120s');
}

function inPostgres(...command: readonly string[]): Promise<string> {
  return DEV.kubectl('exec', 'postgres-0', '--', ...command);
}

function restoreJob(target: string): object {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'restore', namespace: DEV.name },
    spec: {
      backoffLimit: 0,
      template: {
        spec: {
          restartPolicy: 'Never',
          automountServiceAccountToken: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 999,
            runAsGroup: 999,
            fsGroup: 999,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          containers: [
            {
              name: 'restore',
              image: POSTGRES,
              imagePullPolicy: 'IfNotPresent',
              command: ['bash', '-c', PUT_BACK],
              env: [{ name: 'TARGET', value: target }],
              securityContext: {
                allowPrivilegeEscalation: false,
                capabilities: { drop: ['ALL'] },
              },
              volumeMounts: [{ name: 'data', mountPath: HOME }],
            },
          ],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-postgres-0' } }],
        },
      },
    },
  };
}
