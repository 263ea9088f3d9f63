//go:build !race

package simulation_test

// usual is how many schedules TestSchedules runs.
const usual = 3000
