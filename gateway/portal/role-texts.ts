import type { MessageInitShape } from '@bufbuild/protobuf';
import type { RoleActionSchema } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import {
  permissionsFor,
  RIGHTS,
  type Right,
  type RightName,
  rolesWith,
} from '../actions/rights.ts';
import { scopesForAll } from '../actions/scope-rights.ts';
import { TOOLS } from '../mcp/tools.ts';
import type { Role } from '../tenancy/permissions.ts';
import { PORTAL_METHODS } from './methods.ts';

/** Who each role is for. */
export const ROLE_TEXTS: Readonly<Record<Role, string>> = {
  owner:
    'For the person who answers for the shop: may do everything, and only an owner changes owners.',
  admin: 'For managers: may do everything except changes of owners.',
  returns_agent:
    'For customer service: looks into returns, decides flagged ones and processes returns.',
  warehouse: 'For people who receive parcels: sees returns and records what becomes of the goods.',
  analyst:
    'For people who only look: sees returns, fraud reports and summaries, and changes nothing.',
  developer: 'For engineers who connect systems: webhooks, API keys, apps.',
};

const ROWS = Object.entries(RIGHTS) as [RightName, Right][];

/** What people and systems do in a shop, through which doors, and the roles that may do it. */
export function roleActions(): MessageInitShape<typeof RoleActionSchema>[] {
  return ROWS.map(([right, { group, text, rest = [] }]) => {
    const operations = OPERATIONS.filter(({ id }) => rest.includes(id));
    return {
      group,
      description: text,
      portal: PORTAL_METHODS.filter((one) => one.right === right).map(
        ({ method }) => `${method.parent.name}/${method.name}`,
      ),
      mcp: TOOLS.filter((tool) => tool.right === right).map(({ name }) => name),
      permissions: [...permissionsFor(right)],
      roles: rolesWith(right),
      rest: operations.map(({ method: verb, path }) => `${verb} ${path}`),
      scope: scopesForAll(operations).join(' or '),
    };
  });
}
