import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { openersAmong, type Scope, scopesOpening } from '../../services/contract/scopes.ts';
import type { Role } from '../tenancy/permissions.ts';
import { hasRight, RIGHTS, type Right, type RightName } from './rights.ts';

// What scopes and roles have to do with each other. Both are read from one table: the operations name their scopes, and
// the rights of people name their operations.

const ROWS = Object.entries(RIGHTS) as [RightName, Right][];

/** The rights of people that a scope gives to a key or an app: those with an operation that the scope opens. */
export function rightsOfScope(scope: Scope): readonly RightName[] {
  const opened = OPERATIONS.filter((operation) => openersAmong([scope], operation).length > 0);
  const ids = new Set(opened.map(({ id }) => id));
  return ROWS.filter(([, { rest = [] }]) => rest.some((id) => ids.has(id))).map(([name]) => name);
}

/**
 * Whether a member with this role may do all that the scope lets a key or an app do. What only systems do, such as the
 * reports of label providers, is above nobody.
 */
export function roleCovers(role: Role, scope: Scope): boolean {
  return rightsOfScope(scope).every((right) => {
    const { permissions }: Right = RIGHTS[right];
    return permissions === 'systems' || hasRight(role, right);
  });
}

/** The scopes that open all of the operations; none when there are no operations. */
export function scopesForAll(operations: readonly Operation[]): readonly Scope[] {
  const [first, ...others] = operations;
  if (!first) return [];
  return scopesOpening(first).filter((scope) =>
    others.every((operation) => scopesOpening(operation).includes(scope)),
  );
}
