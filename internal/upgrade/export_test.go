package upgrade

// MigrationPage is how many objects are read at a time.
const MigrationPage = migrationPage
