import { type DescMethod, getOption, hasOption } from '@bufbuild/protobuf';
import { type Access, access } from '../../proto/gen/rms/portal/v1/access_pb.ts';
import { ROLE_PERMISSIONS, type Role } from '../tenancy/permissions.ts';

/** Who may call a method; undefined when it does not say so, and then nobody may. */
export function accessOf(method: DescMethod): Access | undefined {
  return hasOption(method, access) ? getOption(method, access) : undefined;
}

/** Whether a member with this role may call the method. */
export function mayCall(role: Role, method: DescMethod): boolean {
  const option = accessOf(method);
  if (!option) return false;
  const own: readonly string[] = ROLE_PERMISSIONS[role];
  return option.everyMember || option.anyOf.some((permission) => own.includes(permission));
}

/** The full name of a method, such as `rms.portal.v1.ReturnsService/ProcessReturn`. */
export function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}
