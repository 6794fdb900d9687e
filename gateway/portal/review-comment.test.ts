import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

test('a return in review shows what was written with the flag, but not its reasons again', async () => {
  const agent = await portalPerson(under, { shopId: 1n, role: 'returns_agent' });
  const kind = 'return.flagged';
  const flagReasons = ['Worn', 'No tag'];
  let text = 'Refund only when the seam is intact';
  under.services.returns.findReturn = () => ({
    return: { ...sampleReturn(), state: ReturnState.REVIEW, flagReasons },
  });
  under.services.returns.getTimeline = ({ kinds, pageSize }) => {
    expect({ kinds, pageSize }).toEqual({ kinds: [kind], pageSize: 1 });
    const actor = { kind: Actor_Kind.USER, id: '7', name: 'Bo', through: 'portal' };
    return { entries: [{ id: 1n, kind, text, actor }] };
  };
  const comment = async () => {
    const found = await agent.client(ReturnsService).getReturn({ returnId: '11' });
    return found.return?.reviewComment;
  };
  expect(await comment()).toMatchObject({ text, by: { name: 'Bo', through: 'portal' } });
  text = 'Worn; No tag';
  expect(await comment()).toBeUndefined();
});
