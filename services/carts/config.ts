import { serviceShape } from '../platform/process/config.ts';

export const cartsShape = { ...serviceShape };
