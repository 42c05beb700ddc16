before_2() { run; }
