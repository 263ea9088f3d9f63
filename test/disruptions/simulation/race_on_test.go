//go:build race

package simulation_test

// usual is how many schedules TestSchedules runs. The race detector is slow, and a schedule
// runs one process at a time.
const usual = 200
