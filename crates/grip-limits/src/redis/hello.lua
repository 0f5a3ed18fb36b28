-- Shows that this instance lives, and that Redis runs scripts and takes writes.

redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return 1
