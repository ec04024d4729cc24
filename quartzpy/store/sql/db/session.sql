-- name: now
SELECT :now;
