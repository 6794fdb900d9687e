import { describe, expect, test } from '@jest/globals';
import { denialsOf } from './pod-security.ts';

const admitted = {
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
};

function pod(o: { security?: object; container?: object; spec?: object }) {
  const container = {
    name: 'one',
    securityContext: { ...admitted, ...o.security },
    ...o.container,
  };
  return denialsOf({
    kind: 'Deployment',
    metadata: { name: 'some', labels: {}, annotations: {} },
    spec: { template: { spec: { containers: [container], ...o.spec } } },
  });
}

describe('the Pod Security level restricted', () => {
  test('admits a pod that requests nothing', () => {
    expect(pod({})).toEqual([]);
  });

  test.each([
    ['privileged', { privileged: true }],
    ['allowPrivilegeEscalation', { allowPrivilegeEscalation: undefined }],
    ['capabilities are not dropped', { capabilities: { drop: ['KILL'] } }],
    ['capabilities', { capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] } }],
    ['procMount', { procMount: 'Unmasked' }],
    ['runAsNonRoot', { runAsNonRoot: undefined }],
    ['seccompProfile', { seccompProfile: undefined }],
    ['seccompProfile', { seccompProfile: { type: 'Unconfined' } }],
    ['runAsUser', { runAsUser: 0 }],
    ['seLinuxOptions', { seLinuxOptions: { user: 'root' } }],
    ['appArmorProfile', { appArmorProfile: { type: 'Unconfined' } }],
    ['hostProcess', { windowsOptions: { hostProcess: true } }],
  ])('denies a container: %s', (denial, security) => {
    expect(pod({ security })).toEqual([`Deployment some: one: ${denial}`]);
  });

  test.each([
    ['hostPort', { ports: [{ hostPort: 80 }] }],
    ['host of a probe', { livenessProbe: { httpGet: { host: '127.0.0.1' } } }],
  ])('denies a container: %s', (denial, container) => {
    expect(pod({ container })).toEqual([`Deployment some: one: ${denial}`]);
  });

  test.each([
    ['host namespaces', { hostNetwork: true }],
    ['volume a', { volumes: [{ name: 'a', hostPath: { path: '/' } }] }],
    ['sysctls', { securityContext: { sysctls: [{ name: 'kernel.msgmax' }] } }],
  ])('denies a pod: %s', (denial, spec) => {
    expect(pod({ spec })).toEqual([`Deployment some: ${denial}`]);
  });

  test('checks init containers, too', () => {
    expect(pod({ spec: { initContainers: [{ name: 'first' }] } })).toHaveLength(4);
  });
});
